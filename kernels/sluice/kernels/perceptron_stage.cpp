#include <sluice/kernels/perceptron_stage.hpp>

#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <sluice/kernels/elementwise.hpp>
#include <sluice/kernels/loss.hpp>

namespace sluice::kernels {
namespace {

std::unique_ptr<PerceptronPart> make_part(const StageContext& context, const Perceptron& model,
                                          std::span<const LayerRange> cut,
                                          const PerceptronStageOptions& options,
                                          int kernel_threads) {
  check_cut(model, cut);
  if (static_cast<std::size_t>(context.stages) != cut.size() ||
      context.stage.index() >= cut.size()) {
    throw std::invalid_argument(
        fmt::format("stage {} of {}: expected a cut of the model into {} parts, found {}; cut it "
                    "into pipeline.stages parts",
                    context.stage.value, context.stages, context.stages, cut.size()));
  }
  PartOptions part;
  part.seed = context.seed;
  part.micro_samples = options.micro_samples;
  part.sgd = options.sgd;
  part.kernel_threads = kernel_threads;
  part.cached_sizes = options.cached_sizes;
  return std::make_unique<PerceptronPart>(model, cut[context.stage.index()], part);
}

std::string describe(const ActionContext<Tensor>& context) {
  return fmt::format("{} (stage {}, mb {}, phase {}, step {})", to_string(context.action),
                     context.action.stage.value, context.action.mb.value,
                     letter(context.action.phase), context.step);
}

}  // namespace

PerceptronStage::PerceptronStage(const StageContext& context, const Perceptron& model,
                                 std::span<const LayerRange> cut,
                                 const PerceptronStageOptions& options)
    : last_(context.stage.value + 1 == context.stages),
      check_finite_(options.sgd.check_finite),
      kernel_threads_(effective_kernel_threads(options.kernel_threads, context.stages)),
      part_(make_part(context, model, cut, options, kernel_threads_)) {}

asio::awaitable<Tensor> PerceptronStage::forward(ActionContext<Tensor>& context, Tensor input) {
  co_return run_forward(context, std::move(input));
}

asio::awaitable<Gradients<Tensor>> PerceptronStage::backward(ActionContext<Tensor>& context,
                                                             Tensor output_gradient) {
  co_return run_backward(context, std::move(output_gradient));
}

asio::awaitable<Tensor> PerceptronStage::input_gradient(ActionContext<Tensor>& context,
                                                        Tensor output_gradient) {
  co_return run_input_gradient(context, std::move(output_gradient));
}

asio::awaitable<Tensor> PerceptronStage::weight_gradient(ActionContext<Tensor>& context) {
  co_return run_weight_gradient(context);
}

const Tensor& PerceptronStage::labels_of(const ActionContext<Tensor>& context) const {
  if (context.target == nullptr) {
    throw std::invalid_argument(
        fmt::format("{}: expected labels as the microbatch's target, found none; the batch source "
                    "must give them",
                    describe(context)));
  }
  return *context.target;
}

Tensor PerceptronStage::run_forward(ActionContext<Tensor>& context, Tensor input) {
  // Inputs are checked too: a ReLU turns NaN into 0, so the output may look sound again.
  if (check_finite_) require_finite(std::as_const(input).f32(), "input", describe(context));
  Held held;
  if (last_ && context.training) held.labels = labels_of(context).clone();
  Tensor output = part_->forward(std::move(input), context.training ? &held.kept : nullptr);
  if (last_) {
    log_softmax(output);
    const Score scored = score(output, labels_of(context));
    context.report_loss(scored.loss);
    context.report("correct", static_cast<double>(scored.correct));
  }
  if (check_finite_) {
    for (const Tensor& inside : held.kept.inputs) {
      require_finite(inside.f32(), "a layer's input", describe(context));
    }
    require_finite(output.f32(), "output", describe(context));
  }
  if (context.training) held_.insert_or_assign(context.action.mb, std::move(held));
  return output;
}

PerceptronStage::Held& PerceptronStage::held_for(const ActionContext<Tensor>& context,
                                                 bool after_input_gradient) {
  const auto found = held_.find(context.action.mb);
  if (found == held_.end() || found->second.input_gradient_done != after_input_gradient) {
    throw std::logic_error(fmt::format(
        "{}: expected {} of this microbatch just before it, found {}; check the schedule",
        describe(context), after_input_gradient ? "the input gradient" : "the forward",
        found == held_.end() ? "no forward" : "another order"));
  }
  return found->second;
}

Tensor PerceptronStage::run_input_gradient(const ActionContext<Tensor>& context,
                                           Tensor output_gradient) {
  Held& held = held_for(context, false);
  if (last_) cross_entropy_backward(output_gradient, held.labels, context.batch_samples);
  held.input_gradient_done = true;
  return part_->input_gradient(held.kept, std::move(output_gradient));
}

Tensor PerceptronStage::run_weight_gradient(const ActionContext<Tensor>& context) {
  Tensor contribution = part_->weight_gradient(std::move(held_for(context, true).kept));
  held_.erase(context.action.mb);
  if (check_finite_) require_finite(contribution.f32(), "weight gradient", describe(context));
  return contribution;
}

Gradients<Tensor> PerceptronStage::run_backward(const ActionContext<Tensor>& context,
                                                Tensor output_gradient) {
  Tensor input_gradient = run_input_gradient(context, std::move(output_gradient));
  return {std::move(input_gradient), run_weight_gradient(context)};
}

void PerceptronStage::accumulate(MicrobatchId, Tensor contribution) {
  part_->accumulate(std::move(contribution));
}

void PerceptronStage::prepare_update(std::int64_t step) { part_->prepare_update(step); }

void PerceptronStage::commit() noexcept { part_->commit(); }

void PerceptronStage::abort() noexcept {
  held_.clear();
  part_->abort();
}

std::optional<std::uint64_t> PerceptronStage::state_hash() const { return part_->state_hash(); }

std::vector<ParameterHash> model_hashes(std::span<PerceptronStage* const> stages) {
  std::vector<ParameterHash> hashes;
  for (PerceptronStage* stage : stages) {
    for (ParameterHash& hash : stage->part().hashes()) hashes.push_back(std::move(hash));
  }
  return hashes;
}

}  // namespace sluice::kernels
