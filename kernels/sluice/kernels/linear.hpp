// Linear: output = input * weight^T + bias, with an optional ReLU fused behind it.
//
// Used by a part of a model, which owns the parameters; a layer owns only its kernels. Parameters
// (and their gradients, and an optimizer's state) lie in a flat block of floats whose inner layout
// is the processor's favourite; whoever wants to see or set them goes through `read` and `write`,
// which speak row-major only. Not thread safe, not bound to a thread: it may be made on one and used
// on another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/kernels/bounded_cache.hpp>
#include <sluice/kernels/onednn.hpp>
#include <sluice/kernels/tensor.hpp>

namespace sluice::kernels {

struct LinearSpec {
  std::string path;  ///< name in the model, "layers.3"; parameters are path.weight and path.bias
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  bool relu = false;
  bool input_gradient = true;  ///< false for the first layer of a model: nobody asks for it
};

class Linear {
 public:
  /// `samples`: of the usual microbatch; kernels for it are made here, those for other sizes when
  /// they come, `cached_sizes` sizes at most. `workspace` must outlive the layer.
  /// Throws std::invalid_argument on sizes below 1, std::runtime_error when the processor has no
  /// fast kernel.
  Linear(LinearSpec spec, Workspace& workspace, std::int64_t samples, std::size_t cached_sizes);

  const LinearSpec& spec() const { return spec_; }
  /// Size of the layer's block of parameters: a multiple of 16, padding included.
  std::size_t parameter_floats() const { return bias_at_ + padded(spec_.outputs); }

  /// Kaiming-uniform weights, zero biases. Depends on the seed and the parameter's path alone.
  void initialize(std::span<float> parameters, std::uint64_t seed);
  /// Row-major `weight` (outputs, inputs) and `bias` (outputs) into a block. Padding becomes zero.
  /// Throws std::invalid_argument when sizes do not fit.
  void write(std::span<float> parameters, std::span<const float> weight,
             std::span<const float> bias);
  /// The other way round; also for gradients and an optimizer's state.
  void read(std::span<const float> parameters, std::span<float> weight, std::span<float> bias);

  /// `input` (n, inputs), `output` (n, outputs), overwritten. Any n >= 1.
  /// Here and below a tensor of another shape throws std::invalid_argument naming the layer.
  void forward(std::span<const float> parameters, const Tensor& input, Tensor& output);
  /// `output_gradient` must have gone through the ReLU's backward. Overwrites `input_gradient`.
  void backward_data(std::span<const float> parameters, const Tensor& output_gradient,
                     Tensor& input_gradient);
  /// Overwrites `gradient`, a block of `parameter_floats`, wholly: padding becomes zero.
  void backward_weights(const Tensor& input, const Tensor& output_gradient,
                        std::span<float> gradient);

  /// Which kernels run for the usual microbatch: "layers.3 forward brgemm:avx512_core".
  std::vector<std::string> implementations() const;
  CacheCounts cache() const { return kernels_.counts(); }

 private:
  struct Kernels {
    Kernel forward;
    std::optional<Kernel> backward_data;
    Kernel backward_weights;
  };

  static std::size_t padded(std::int64_t floats);
  Kernels make(std::int64_t samples) const;
  Kernels& kernels(std::int64_t samples);
  void require_block(std::span<const float> block) const;
  std::int64_t require(const Tensor& tensor, const char* what, std::int64_t width) const;
  void require_samples(const Tensor& tensor, const char* what, std::int64_t samples,
                       std::int64_t width) const;
  void require_plain(std::size_t weight, std::size_t bias) const;

  LinearSpec spec_;
  Workspace& workspace_;
  dnnl::memory::desc weight_layout_;
  std::size_t bias_at_ = 0;
  BoundedCache<std::int64_t, Kernels> kernels_;
  Kernel to_block_;
  Kernel from_block_;
  std::vector<std::string> implementations_;
};

}  // namespace sluice::kernels
