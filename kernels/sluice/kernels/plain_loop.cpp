#include <sluice/kernels/plain_loop.hpp>

#include <algorithm>
#include <string>

#include <sluice/kernels/elementwise.hpp>

namespace sluice::kernels {

PlainLoop::PlainLoop(const Perceptron& model, const PartOptions& options)
    : workspace_(options.kernel_threads),
      starts_{0},
      outputs_(static_cast<std::size_t>(model.layers())),
      gradients_(static_cast<std::size_t>(model.layers())) {
  for (int l = 0; l < model.layers(); ++l) {
    layers_.emplace_back(model.layer(l), workspace_, options.micro_samples, options.cached_sizes);
    starts_.push_back(starts_.back() + layers_.back().parameter_floats());
  }
  const Dims flat{static_cast<std::int64_t>(starts_.back())};
  weights_ = Tensor::zeros(DType::f32, flat);
  gradient_ = Tensor::zeros(DType::f32, flat);
  contribution_ = Tensor::zeros(DType::f32, flat);
  sgd_ = std::make_unique<Sgd>(options.sgd, starts_.back());
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    layers_[l].initialize(block(weights_, l), options.seed);
  }
}

std::span<float> PlainLoop::block(Tensor& flat, std::size_t layer) const {
  return flat.f32().subspan(starts_[layer], starts_[layer + 1] - starts_[layer]);
}

Tensor& PlainLoop::buffer(std::vector<Tensor>& buffers, std::size_t index, std::int64_t samples,
                          std::int64_t width) {
  const Dims dims{samples, width};
  if (buffers[index].dims() != dims) buffers[index] = Tensor::uninitialized(DType::f32, dims);
  return buffers[index];
}

const Tensor& PlainLoop::forward(const Tensor& input) {
  const Tensor* value = &input;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    Tensor& output = buffer(outputs_, l, input.dims()[0], layers_[l].spec().outputs);
    layers_[l].forward(block(weights_, l), *value, output);
    value = &output;
  }
  log_softmax(outputs_.back());
  return outputs_.back();
}

Score PlainLoop::evaluate(const Microbatch& microbatch) {
  return score(forward(microbatch.input), microbatch.labels);
}

Score PlainLoop::step(std::span<const Microbatch> batch) {
  std::int64_t batch_samples = 0;
  for (const Microbatch& mb : batch) batch_samples += mb.input.dims()[0];

  Score sum;
  for (std::size_t m = 0; m < batch.size(); ++m) {
    const auto& [input, labels] = batch[m];
    const std::int64_t samples = input.dims()[0];
    const Score scored = score(forward(input), labels);
    sum.loss += scored.loss;
    sum.correct += scored.correct;
    sum.samples += scored.samples;

    Tensor& last = buffer(gradients_, layers_.size() - 1, samples, outputs_.back().dims()[1]);
    std::copy(outputs_.back().f32().begin(), outputs_.back().f32().end(), last.f32().begin());
    cross_entropy_backward(last, labels, batch_samples);
    Tensor& target = m == 0 ? gradient_ : contribution_;
    for (std::size_t l = layers_.size(); l-- > 0;) {
      if (layers_[l].spec().relu) relu_backward(gradients_[l].f32(), outputs_[l].f32());
      layers_[l].backward_weights(l == 0 ? input : outputs_[l - 1], gradients_[l],
                                  block(target, l));
      if (l == 0) break;
      Tensor& previous = buffer(gradients_, l - 1, samples, layers_[l].spec().inputs);
      layers_[l].backward_data(block(weights_, l), gradients_[l], previous);
    }
    if (m > 0) add(gradient_.f32(), contribution_.f32());
  }

  for (std::size_t l = 0; l < layers_.size(); ++l) {
    sgd_->prepare(block(gradient_, l), layers_[l].spec().path);
  }
  sgd_->commit(steps_++, weights_.f32(), gradient_.f32());
  return sum;
}

std::vector<ParameterHash> PlainLoop::hashes() {
  std::vector<ParameterHash> hashes;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const LinearSpec& spec = layers_[l].spec();
    const auto hash = [&](std::span<const float> flat) {
      Tensor weight = Tensor::zeros(DType::f32, Dims{spec.outputs, spec.inputs});
      Tensor bias = Tensor::zeros(DType::f32, Dims{spec.outputs});
      layers_[l].read(flat.subspan(starts_[l], layers_[l].parameter_floats()), weight.f32(),
                      bias.f32());
      return std::pair(weight.hash(), bias.hash());
    };
    const auto [weight, bias] = hash(weights_.f32());
    const auto [weight_velocity, bias_velocity] = hash(sgd_->velocity());
    hashes.push_back({spec.path + ".weight", weight, weight_velocity});
    hashes.push_back({spec.path + ".bias", bias, bias_velocity});
  }
  return hashes;
}

}  // namespace sluice::kernels
