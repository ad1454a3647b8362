// Pipelines of tensors. Their runtime is compiled once, into this library.
#pragma once

#include <sluice/compiled_once.hpp>
#include <sluice/kernels/tensor.hpp>
#include <sluice/kernels/wire_traits.hpp>
#include <sluice/pipeline.hpp>

SLUICE_COMPILED_ONCE(extern template, sluice::kernels::Tensor)
