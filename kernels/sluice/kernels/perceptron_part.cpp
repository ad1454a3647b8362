#include <sluice/kernels/perceptron_part.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <sluice/kernels/elementwise.hpp>
#include <sluice/kernels/hash.hpp>

namespace sluice::kernels {
namespace {

/// Enough for a stage's outputs and contributions in flight; a bound, not a reservation.
constexpr std::size_t pooled_buffers = 64;

std::vector<Linear> make_layers(const Perceptron& model, LayerRange range,
                                const PartOptions& options, Workspace& workspace) {
  if (range.first < 0 || range.last > model.layers() || range.first >= range.last) {
    throw std::invalid_argument(
        fmt::format("part of a model of {} layers: expected a non-empty range within 0..{}, found "
                    "{}..{}; take it from partition()",
                    model.layers(), model.layers() - 1, range.first, range.last - 1));
  }
  std::vector<Linear> layers;
  for (int index = range.first; index < range.last; ++index) {
    layers.emplace_back(model.layer(index), workspace, options.micro_samples, options.cached_sizes);
  }
  return layers;
}

std::vector<std::size_t> starts_of(const std::vector<Linear>& layers) {
  std::vector<std::size_t> starts{0};
  for (const Linear& layer : layers) starts.push_back(starts.back() + layer.parameter_floats());
  return starts;
}

Tensor flat_zeros(std::size_t floats) {
  return Tensor::zeros(DType::f32, Dims{static_cast<std::int64_t>(floats)});
}

std::uint64_t fold(std::span<const ParameterHash> parameters, bool with_velocity) {
  std::uint64_t hash = 0;
  for (const ParameterHash& parameter : parameters) {
    hash = hash_bytes(parameter.path.data(), parameter.path.size(), hash);
    hash = hash_bytes(&parameter.value, sizeof parameter.value, hash);
    if (with_velocity) {
      hash = hash_bytes(&parameter.velocity, sizeof parameter.velocity, hash);
    }
  }
  return hash;
}

}  // namespace

std::uint64_t weights_hash(std::span<const ParameterHash> parameters) {
  return fold(parameters, false);
}

std::uint64_t state_hash(std::span<const ParameterHash> parameters) {
  return fold(parameters, true);
}

PerceptronPart::PerceptronPart(const Perceptron& model, LayerRange layers,
                               const PartOptions& options)
    : workspace_(std::make_unique<Workspace>(options.kernel_threads)),
      layers_(make_layers(model, layers, options, *workspace_)),
      starts_(starts_of(layers_)),
      weights_(flat_zeros(floats())),
      sgd_(options.sgd, floats()),
      pool_(pooled_buffers) {
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    layers_[l].initialize(block(weights_, l), options.seed);
  }
}

std::span<float> PerceptronPart::block(Tensor& flat, std::size_t layer) const {
  return flat.f32().subspan(starts_[layer], starts_[layer + 1] - starts_[layer]);
}

std::span<const float> PerceptronPart::block(const Tensor& flat, std::size_t layer) const {
  return flat.f32().subspan(starts_[layer], starts_[layer + 1] - starts_[layer]);
}

Tensor PerceptronPart::forward(Tensor input, Kept* keep) {
  const std::int64_t samples = input.dims()[0];
  Tensor value = std::move(input);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    Tensor output = pool_.take(DType::f32, Dims{samples, layers_[l].spec().outputs});
    layers_[l].forward(block(std::as_const(weights_), l), value, output);
    if (keep != nullptr) {
      keep->inputs.push_back(std::move(value));
    } else {
      pool_.give(std::move(value));
    }
    value = std::move(output);
  }
  if (keep != nullptr && layers_.back().spec().relu) {
    keep->output = pool_.take(DType::f32, value.dims());
    std::copy(value.f32().begin(), value.f32().end(), keep->output.f32().begin());
  }
  return value;
}

Tensor PerceptronPart::input_gradient(Kept& kept, Tensor output_gradient) {
  kept.output_gradients.resize(layers_.size());
  Tensor received;  // somebody may still want to see it: it is not written to
  Tensor gradient = std::move(output_gradient);
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const LinearSpec& spec = layers_[l].spec();
    if (spec.relu) {
      const bool last = l + 1 == layers_.size();
      const Tensor& output = last ? kept.output : kept.inputs[l + 1];
      if (gradient.dims() != output.dims()) {
        throw std::invalid_argument(fmt::format(
            "{}: output gradient: expected the shape of the output, {}, found {}; the next stage "
            "must return the gradient of what it was given",
            spec.path, to_string(output.dims()), to_string(gradient.dims())));
      }
      if (last) {
        relu_backward_into(kept.output.f32(), std::as_const(gradient).f32());
        received = std::exchange(gradient, std::move(kept.output));
      } else {
        relu_backward(gradient.f32(), output.f32());
      }
    }
    Tensor next;
    if (spec.input_gradient) {
      next = pool_.take(DType::f32, kept.inputs[l].dims());
      layers_[l].backward_data(block(std::as_const(weights_), l), gradient, next);
    }
    kept.output_gradients[l] = std::move(gradient);
    gradient = std::move(next);
  }
  pool_.give(std::move(received));
  return gradient;
}

Tensor PerceptronPart::weight_gradient(Kept kept) {
  Tensor contribution = pool_.take(DType::f32, Dims{static_cast<std::int64_t>(floats())});
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    layers_[l].backward_weights(kept.inputs[l], kept.output_gradients[l], block(contribution, l));
    pool_.give(std::move(kept.output_gradients[l]));
    // What the batch source made never comes back as something the pool could serve.
    if (layers_[l].spec().input_gradient) pool_.give(std::move(kept.inputs[l]));
  }
  return contribution;
}

void PerceptronPart::accumulate(Tensor contribution) {
  if (contribution.f32().size() != floats()) {
    throw std::invalid_argument(
        fmt::format("{}: gradient contribution: expected {} floats, found {}; hand in what "
                    "weight_gradient of this part returned",
                    layers_.front().spec().path, floats(), to_string(contribution.dims())));
  }
  if (gradient_.empty()) {
    gradient_ = std::move(contribution);
  } else {
    add(gradient_.f32(), contribution.f32());
    pool_.give(std::move(contribution));
  }
}

void PerceptronPart::prepare_update(std::int64_t step) {
  if (gradient_.empty()) {
    throw std::logic_error(
        fmt::format("{}: update: expected accumulated gradients, found none; run "
                    "the backwards of a step first",
                    layers_.front().spec().path));
  }
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    sgd_.prepare(block(std::as_const(gradient_), l), layers_[l].spec().path);
  }
  prepared_step_ = step;
}

void PerceptronPart::commit() noexcept {
  sgd_.commit(prepared_step_, weights_.f32(), gradient_.f32());
  abort();
}

void PerceptronPart::abort() noexcept { pool_.give(std::move(gradient_)); }

StageShape PerceptronPart::shape(std::int64_t samples) const {
  StageShape shape;
  shape.input = Dims{samples, layers_.front().spec().inputs};
  shape.output = Dims{samples, layers_.back().spec().outputs};
  return shape;
}

std::vector<Parameter> PerceptronPart::snapshot() {
  std::vector<Parameter> parameters;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const LinearSpec& spec = layers_[l].spec();
    Parameter weight{spec.path + ".weight",
                     Tensor::uninitialized(DType::f32, Dims{spec.outputs, spec.inputs}),
                     Tensor::uninitialized(DType::f32, Dims{spec.outputs, spec.inputs})};
    Parameter bias{spec.path + ".bias", Tensor::uninitialized(DType::f32, Dims{spec.outputs}),
                   Tensor::uninitialized(DType::f32, Dims{spec.outputs})};
    layers_[l].read(block(std::as_const(weights_), l), weight.value.f32(), bias.value.f32());
    const auto velocity = std::as_const(sgd_).velocity().subspan(starts_[l]);
    layers_[l].read(velocity.first(layers_[l].parameter_floats()), weight.velocity.f32(),
                    bias.velocity.f32());
    parameters.push_back(std::move(weight));
    parameters.push_back(std::move(bias));
  }
  return parameters;
}

void PerceptronPart::restore(std::span<const Parameter> parameters) {
  const std::vector<Parameter> mine = snapshot();
  const auto fits = [](const Parameter& own, const Parameter& given) {
    const auto same = [](const Tensor& a, const Tensor& b) {
      return a.dims() == b.dims() && a.type() == b.type();
    };
    return own.path == given.path && same(own.value, given.value) &&
           same(own.velocity, given.velocity);
  };
  for (std::size_t i = 0; i < std::max(mine.size(), parameters.size()); ++i) {
    if (i < mine.size() && i < parameters.size() && fits(mine[i], parameters[i])) continue;
    const auto describe = [i](std::span<const Parameter> from) {
      return i < from.size() ? fmt::format("{} {}", from[i].path, to_string(from[i].value.dims()))
                             : std::string("no more");
    };
    throw std::invalid_argument(
        fmt::format("restore: parameter {}: expected {}, found {}; these parameters are of another "
                    "model or of other layers",
                    i, describe(mine), describe(parameters)));
  }
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const Parameter& weight = parameters[2 * l];
    const Parameter& bias = parameters[2 * l + 1];
    layers_[l].write(block(weights_, l), weight.value.f32(), bias.value.f32());
    layers_[l].write(sgd_.velocity().subspan(starts_[l], layers_[l].parameter_floats()),
                     weight.velocity.f32(), bias.velocity.f32());
  }
}

std::vector<ParameterHash> PerceptronPart::hashes() {
  std::vector<ParameterHash> result;
  for (const Parameter& parameter : snapshot()) {
    result.push_back({parameter.path, parameter.value.hash(), parameter.velocity.hash()});
  }
  return result;
}

std::uint64_t PerceptronPart::state_hash() const {
  const std::span<const float> velocity = sgd_.velocity();
  return hash_bytes(velocity.data(), velocity.size_bytes(), weights_.hash());
}

std::vector<std::string> PerceptronPart::implementations() const {
  std::vector<std::string> names;
  for (const Linear& layer : layers_) {
    for (std::string& name : layer.implementations()) names.push_back(std::move(name));
  }
  return names;
}

CacheCounts PerceptronPart::cache() const {
  CacheCounts sum;
  for (const Linear& layer : layers_) {
    sum.hits += layer.cache().hits;
    sum.misses += layer.cache().misses;
    sum.capacity += layer.cache().capacity;
  }
  return sum;
}

}  // namespace sluice::kernels
