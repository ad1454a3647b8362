// PerceptronStage: a part of a Perceptron as a stage of a pipeline.
//
// The only place where layers meet the runtime. Made by a stage factory, owned by its rank, called on
// that rank's executor. Its functions never suspend: each computes on the thread that resumes it and
// is done. The last stage ends in log-softmax and cross-entropy; its forward returns
// log-probabilities, its target is the labels, s32 (samples), and besides the loss it reports the
// figure "correct": how many samples have the label as their most probable class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/kernels/perceptron_part.hpp>
#include <sluice/kernels/wire_traits.hpp>
#include <sluice/stage.hpp>

namespace sluice::kernels {

struct PerceptronStageOptions {
  std::int64_t micro_samples = 32;  ///< the usual microbatch
  SgdOptions sgd;                ///< `check_finite` also checks every input, output, contribution
  int kernel_threads = 1;        ///< wanted; capped so that all stages fit the processors
  std::size_t cached_sizes = 8;  ///< microbatch sizes to keep kernels for
};

class PerceptronStage final : public Stage<Tensor> {
 public:
  /// The seed is the context's. Throws like `check_cut` and `PerceptronPart`, and
  /// std::invalid_argument when `cut` has another number of parts than the context has stages.
  PerceptronStage(const StageContext& context, const Perceptron& model,
                  std::span<const LayerRange> cut, const PerceptronStageOptions& options);

  asio::awaitable<Tensor> forward(ActionContext<Tensor>& context, Tensor input) override;
  asio::awaitable<Gradients<Tensor>> backward(ActionContext<Tensor>& context,
                                              Tensor output_gradient) override;
  asio::awaitable<Tensor> input_gradient(ActionContext<Tensor>& context,
                                         Tensor output_gradient) override;
  asio::awaitable<Tensor> weight_gradient(ActionContext<Tensor>& context) override;
  void accumulate(MicrobatchId mb, Tensor contribution) override;
  void prepare_update(std::int64_t step) override;
  void commit() noexcept override;
  void abort() noexcept override;
  /// Over weights and velocity of this stage's parameters, as they lie in memory.
  std::optional<std::uint64_t> state_hash() const override;

  /// The part, to hash, save or restore its parameters between steps.
  PerceptronPart& part() { return *part_; }
  /// What decides the bits of this stage's results, besides inputs and seed.
  KernelIdentity identity() const { return kernel_identity(kernel_threads_); }

 private:
  struct Held {
    PerceptronPart::Kept kept;
    Tensor labels;  ///< on the last stage
    bool input_gradient_done = false;
  };

  Tensor run_forward(ActionContext<Tensor>& context, Tensor input);
  Tensor run_input_gradient(const ActionContext<Tensor>& context, Tensor output_gradient);
  Tensor run_weight_gradient(const ActionContext<Tensor>& context);
  Gradients<Tensor> run_backward(const ActionContext<Tensor>& context, Tensor output_gradient);
  Held& held_for(const ActionContext<Tensor>& context, bool after_input_gradient);
  const Tensor& labels_of(const ActionContext<Tensor>& context) const;

  bool last_;
  bool check_finite_;
  int kernel_threads_;
  std::unique_ptr<PerceptronPart> part_;
  std::map<MicrobatchId, Held> held_;  ///< forwards whose backward has not ended
};

/// The hashes of all parameters of a model, in model order, from the stages that hold its parts in
/// stage order: what `weights_hash` and `state_hash` want.
std::vector<ParameterHash> model_hashes(std::span<PerceptronStage* const> stages);

}  // namespace sluice::kernels
