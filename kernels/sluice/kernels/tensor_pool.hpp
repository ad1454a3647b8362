// TensorPool: buffers that a stage has done with, for its next outputs.
//
// A stage frees as many buffers as it needs, of the same sizes, microbatch after microbatch: what it
// received is, after its backward, what it sends. Taking them here costs nothing; taking them from
// the allocator costs page faults. Owned by one stage and used on whatever thread runs that stage,
// one call at a time.
#pragma once

#include <cstddef>
#include <vector>

#include <sluice/kernels/tensor.hpp>

namespace sluice::kernels {

class TensorPool {
 public:
  /// Keeps at most `capacity` buffers; the ones unused for longest go first.
  explicit TensorPool(std::size_t capacity) : capacity_(capacity) { free_.reserve(capacity); }

  /// A tensor with undefined contents. The most recently returned buffer of that size, when there
  /// is one: it may still be in the processor's cache.
  Tensor take(DType type, const Dims& dims);
  void give(Tensor tensor) noexcept;

  std::size_t size() const { return free_.size(); }

 private:
  std::vector<Tensor> free_;
  std::size_t capacity_;
};

}  // namespace sluice::kernels
