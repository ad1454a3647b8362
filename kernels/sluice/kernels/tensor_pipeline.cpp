#include <sluice/kernels/tensor_pipeline.hpp>

SLUICE_COMPILED_ONCE(template, sluice::kernels::Tensor)
