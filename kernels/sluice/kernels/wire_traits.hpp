// What the core may ask of a Tensor that crosses a stage boundary. Include it wherever a pipeline of
// tensors is made: the core's default is not to hash.
#pragma once

#include <cstdint>
#include <string>

#include <sluice/kernels/elementwise.hpp>
#include <sluice/kernels/npy.hpp>
#include <sluice/kernels/tensor.hpp>
#include <sluice/stage.hpp>

namespace sluice {

template <>
struct WireTraits<kernels::Tensor> {
  static constexpr bool hashes = true;
  static std::uint64_t hash(const kernels::Tensor& tensor) { return tensor.hash(); }
  /// Numbers other than f32 are always finite.
  static bool finite(const kernels::Tensor& tensor) {
    return tensor.type() != kernels::DType::f32 || kernels::all_finite(tensor.f32());
  }
  static kernels::Tensor clone(const kernels::Tensor& tensor) { return tensor.clone(); }
  static kernels::Tensor keep(const kernels::Tensor& tensor) { return tensor.share(); }
  static std::string encode(const kernels::Tensor& tensor) { return kernels::to_npy(tensor); }
};

}  // namespace sluice
