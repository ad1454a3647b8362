#include <sluice/kernels/tensor_pool.hpp>

#include <utility>

namespace sluice::kernels {

Tensor TensorPool::take(DType type, const Dims& dims) {
  for (std::size_t i = free_.size(); i-- > 0;) {
    if (free_[i].dims().elements() != dims.elements()) continue;
    Tensor tensor = std::move(free_[i]);
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
    tensor.reshape(type, dims);
    return tensor;
  }
  return Tensor::uninitialized(type, dims);
}

void TensorPool::give(Tensor tensor) noexcept {
  if (tensor.empty() || capacity_ == 0) return;
  if (free_.size() == capacity_) free_.erase(free_.begin());
  free_.push_back(std::move(tensor));
}

}  // namespace sluice::kernels
