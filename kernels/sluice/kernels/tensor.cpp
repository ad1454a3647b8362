#include <sluice/kernels/tensor.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <sluice/kernels/hash.hpp>

namespace sluice::kernels {
namespace {

std::string_view name(DType type) { return type == DType::f32 ? "f32" : "s32"; }

}  // namespace

Dims::Dims(std::initializer_list<std::int64_t> sizes) : rank_(sizes.size()) {
  if (rank_ > max_rank) {
    throw std::invalid_argument(
        fmt::format("tensor dimensions: at most {} are supported, found {}; fold some into one",
                    max_rank, rank_));
  }
  std::int64_t room = std::numeric_limits<std::int64_t>::max() / 4;
  std::size_t axis = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0 || (size > 0 && room / size == 0)) {
      throw std::invalid_argument(
          fmt::format("tensor dimension {}: expected a size whose product with the others fits in "
                      "memory, found {}; check the shape that was asked for",
                      axis, size));
    }
    if (size > 0) room /= size;
    sizes_[axis++] = size;
  }
}

std::int64_t Dims::elements() const {
  if (rank_ == 0) return 0;
  std::int64_t product = 1;
  for (std::size_t axis = 0; axis < rank_; ++axis) product *= sizes_[axis];
  return product;
}

std::string to_string(const Dims& dims) {
  std::string text = "(";
  for (std::size_t axis = 0; axis < dims.rank(); ++axis) {
    text += fmt::format("{}{}", axis == 0 ? "" : ", ", dims[axis]);
  }
  return text + ")";
}

Tensor::Tensor(Tensor&& other) noexcept
    : storage_(std::move(other.storage_)),
      dims_(std::exchange(other.dims_, Dims())),
      type_(other.type_) {}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this != &other) {
    storage_ = std::move(other.storage_);
    dims_ = std::exchange(other.dims_, Dims());
    type_ = other.type_;
  }
  return *this;
}

Tensor Tensor::uninitialized(DType type, const Dims& dims) {
  Tensor tensor;
  tensor.dims_ = dims;
  tensor.type_ = type;
  if (!tensor.empty()) {
    tensor.storage_.reset(
        static_cast<std::byte*>(::operator new[](tensor.bytes(), std::align_val_t(alignment))),
        Free());
  }
  return tensor;
}

Tensor Tensor::zeros(DType type, const Dims& dims) {
  Tensor tensor = uninitialized(type, dims);
  if (!tensor.empty()) std::memset(tensor.storage_.get(), 0, tensor.bytes());
  return tensor;
}

Tensor Tensor::clone() const {
  Tensor copy = uninitialized(type_, dims_);
  if (!empty()) std::memcpy(copy.storage_.get(), storage_.get(), bytes());
  return copy;
}

Tensor Tensor::share() const {
  Tensor second;
  second.storage_ = storage_;
  second.dims_ = dims_;
  second.type_ = type_;
  return second;
}

void Tensor::stop_sharing() {
  if (storage_.use_count() > 1) *this = clone();
}

void Tensor::require(DType type) const {
  if (type_ != type && !empty()) {
    throw std::invalid_argument(
        fmt::format("tensor {}: expected elements of type {}, found {}; inputs and gradients are "
                    "f32, labels s32",
                    to_string(dims_), name(type), name(type_)));
  }
}

std::span<float> Tensor::f32() {
  require(DType::f32);
  stop_sharing();
  return {reinterpret_cast<float*>(storage_.get()), static_cast<std::size_t>(dims_.elements())};
}

std::span<const float> Tensor::f32() const {
  require(DType::f32);
  return {reinterpret_cast<const float*>(storage_.get()),
          static_cast<std::size_t>(dims_.elements())};
}

std::span<std::int32_t> Tensor::s32() {
  require(DType::s32);
  stop_sharing();
  return {reinterpret_cast<std::int32_t*>(storage_.get()),
          static_cast<std::size_t>(dims_.elements())};
}

std::span<const std::int32_t> Tensor::s32() const {
  require(DType::s32);
  return {reinterpret_cast<const std::int32_t*>(storage_.get()),
          static_cast<std::size_t>(dims_.elements())};
}

void Tensor::reshape(DType type, const Dims& dims) {
  if (dims.elements() != dims_.elements()) {
    throw std::invalid_argument(
        fmt::format("tensor reshape: expected as many elements as {} has, found {}; make a new "
                    "tensor for another size",
                    to_string(dims_), to_string(dims)));
  }
  type_ = type;
  dims_ = dims;
}

std::uint64_t Tensor::hash() const {
  std::array<std::int64_t, Dims::max_rank + 2> header{};
  header[0] = static_cast<std::int64_t>(type_);
  header[1] = static_cast<std::int64_t>(dims_.rank());
  for (std::size_t axis = 0; axis < dims_.rank(); ++axis) header[axis + 2] = dims_[axis];
  // The header is the seed of the data's hash: one pass, no copy.
  return hash_bytes(storage_.get(), bytes(), hash_bytes(header.data(), sizeof header));
}

}  // namespace sluice::kernels
