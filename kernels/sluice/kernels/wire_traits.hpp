// How the core hashes a Tensor that crosses a stage boundary. Include it wherever a pipeline of
// tensors is made: the core's default is not to hash.
#pragma once

#include <cstdint>

#include <sluice/kernels/tensor.hpp>
#include <sluice/stage.hpp>

namespace sluice {

template <>
struct WireTraits<kernels::Tensor> {
  static constexpr bool hashes = true;
  static std::uint64_t hash(const kernels::Tensor& tensor) { return tensor.hash(); }
};

}  // namespace sluice
