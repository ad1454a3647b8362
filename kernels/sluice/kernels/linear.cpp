#include <sluice/kernels/linear.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <sluice/random.hpp>

namespace sluice::kernels {
namespace {

constexpr std::size_t floats_per_line = alignment / sizeof(float);

LinearSpec checked(LinearSpec spec, std::int64_t samples) {
  if (spec.inputs < 1 || spec.outputs < 1 || samples < 1) {
    throw std::invalid_argument(
        fmt::format("{}: expected at least 1 input, 1 output and 1 sample in a microbatch, found "
                    "{}, {} and {}; check the model's widths and the microbatch size",
                    spec.path, spec.inputs, spec.outputs, samples));
  }
  return spec;
}

}  // namespace

std::size_t Linear::padded(std::int64_t floats) {
  return (static_cast<std::size_t>(floats) + floats_per_line - 1) / floats_per_line *
         floats_per_line;
}

Linear::Linear(LinearSpec spec, Workspace& workspace, std::int64_t samples,
               std::size_t cached_sizes)
    : spec_(checked(std::move(spec), samples)),
      workspace_(workspace),
      weight_layout_(
          preferred_linear_layouts(workspace, samples, spec_.inputs, spec_.outputs).weights),
      bias_at_(padded(static_cast<std::int64_t>(weight_layout_.get_size() / sizeof(float)))),
      kernels_(cached_sizes),
      to_block_(reorder(workspace, plain_layout({spec_.outputs, spec_.inputs}), weight_layout_)),
      from_block_(reorder(workspace, weight_layout_, plain_layout({spec_.outputs, spec_.inputs}))) {
  const Kernels& made = kernels(samples);
  const auto add = [this](std::string_view pass, const Kernel& kernel) {
    implementations_.push_back(fmt::format("{} {} {}", spec_.path, pass, kernel.implementation()));
  };
  add("forward", made.forward);
  if (made.backward_data) add("backward-data", *made.backward_data);
  add("backward-weights", made.backward_weights);
}

Linear::Kernels Linear::make(std::int64_t samples) const {
  LinearLayouts layouts;
  layouts.input = plain_layout({samples, spec_.inputs});
  layouts.weights = weight_layout_;
  layouts.bias = plain_layout({spec_.outputs});
  layouts.output = plain_layout({samples, spec_.outputs});
  std::optional<Kernel> backward_data;
  if (spec_.input_gradient) {
    backward_data.emplace(linear_backward_data(workspace_, spec_.path, layouts));
  }
  return Kernels{linear_forward(workspace_, spec_.path, layouts, spec_.relu),
                 std::move(backward_data),
                 linear_backward_weights(workspace_, spec_.path, layouts)};
}

Linear::Kernels& Linear::kernels(std::int64_t samples) {
  return kernels_.get(samples, [&] { return make(samples); });
}

void Linear::initialize(std::span<float> parameters, std::uint64_t seed) {
  std::vector<float> weight(static_cast<std::size_t>(spec_.outputs * spec_.inputs));
  const std::vector<float> bias(static_cast<std::size_t>(spec_.outputs), 0.0F);
  // A ReLU halves the variance, which the gain of 2 makes up for.
  const double gain = spec_.relu ? 2.0 : 1.0;
  const auto bound = static_cast<float>(std::sqrt(3.0 * gain / static_cast<double>(spec_.inputs)));
  KeyedRandom random(seed, 0, spec_.path + ".weight", 0, "init");
  for (float& value : weight) value = bound * (2.0F * random.uniform() - 1.0F);
  write(parameters, weight, bias);
}

void Linear::write(std::span<float> parameters, std::span<const float> weight,
                   std::span<const float> bias) {
  require_block(parameters);
  require_plain(weight.size(), bias.size());
  std::fill(parameters.begin(), parameters.end(), 0.0F);
  to_block_.run(workspace_, std::array<const void*, 2>{weight.data(), parameters.data()});
  std::copy(bias.begin(), bias.end(), parameters.begin() + static_cast<std::ptrdiff_t>(bias_at_));
}

void Linear::read(std::span<const float> parameters, std::span<float> weight,
                  std::span<float> bias) {
  require_block(parameters);
  require_plain(weight.size(), bias.size());
  from_block_.run(workspace_, std::array<const void*, 2>{parameters.data(), weight.data()});
  const auto from = parameters.subspan(bias_at_, bias.size());
  std::copy(from.begin(), from.end(), bias.begin());
}

void Linear::forward(std::span<const float> parameters, const Tensor& input, Tensor& output) {
  require_block(parameters);
  const std::int64_t samples = require(input, "input", spec_.inputs);
  require_samples(output, "output", samples, spec_.outputs);
  kernels(samples).forward.run(
      workspace_, std::array<const void*, 4>{input.f32().data(), parameters.data(),
                                             parameters.data() + bias_at_, output.f32().data()});
}

void Linear::backward_data(std::span<const float> parameters, const Tensor& output_gradient,
                           Tensor& input_gradient) {
  require_block(parameters);
  const std::int64_t samples = require(output_gradient, "output gradient", spec_.outputs);
  require_samples(input_gradient, "input gradient", samples, spec_.inputs);
  std::optional<Kernel>& kernel = kernels(samples).backward_data;
  if (!kernel) {
    throw std::logic_error(fmt::format(
        "{}: expected a layer made with input_gradient, found one without; only the first layer of "
        "a model does without",
        spec_.path));
  }
  kernel->run(workspace_,
              std::array<const void*, 3>{output_gradient.f32().data(), parameters.data(),
                                         input_gradient.f32().data()});
}

void Linear::backward_weights(const Tensor& input, const Tensor& output_gradient,
                              std::span<float> gradient) {
  require_block(gradient);
  const std::int64_t samples = require(input, "input", spec_.inputs);
  require_samples(output_gradient, "output gradient", samples, spec_.outputs);
  // The kernel writes the padding inside its layout; what lies between blocks is ours to clear.
  const std::size_t weight_end = weight_layout_.get_size() / sizeof(float);
  const std::size_t bias_end = bias_at_ + static_cast<std::size_t>(spec_.outputs);
  std::fill(gradient.begin() + static_cast<std::ptrdiff_t>(weight_end),
            gradient.begin() + static_cast<std::ptrdiff_t>(bias_at_), 0.0F);
  std::fill(gradient.begin() + static_cast<std::ptrdiff_t>(bias_end), gradient.end(), 0.0F);
  kernels(samples).backward_weights.run(
      workspace_, std::array<const void*, 4>{input.f32().data(), output_gradient.f32().data(),
                                             gradient.data(), gradient.data() + bias_at_});
}

std::vector<std::string> Linear::implementations() const { return implementations_; }

void Linear::require_block(std::span<const float> block) const {
  if (block.size() != parameter_floats()) {
    throw std::invalid_argument(
        fmt::format("{}: expected a parameter block of {} floats, found {}; ask parameter_floats()",
                    spec_.path, parameter_floats(), block.size()));
  }
}

std::int64_t Linear::require(const Tensor& tensor, const char* what, std::int64_t width) const {
  const Dims& dims = tensor.dims();
  if (dims.rank() != 2 || dims[0] < 1 || dims[1] != width || tensor.type() != DType::f32) {
    throw std::invalid_argument(fmt::format(
        "{}: {}: expected f32 (samples, {}), found {}{}; check which stage or batch "
        "source this came from",
        spec_.path, what, width, tensor.type() == DType::f32 ? "" : "s32 ", to_string(dims)));
  }
  return dims[0];
}

void Linear::require_samples(const Tensor& tensor, const char* what, std::int64_t samples,
                             std::int64_t width) const {
  if (require(tensor, what, width) != samples) {
    throw std::invalid_argument(
        fmt::format("{}: {}: expected as many samples as came with it, ({}, {}), found {}",
                    spec_.path, what, samples, width, to_string(tensor.dims())));
  }
}

void Linear::require_plain(std::size_t weight, std::size_t bias) const {
  if (weight != static_cast<std::size_t>(spec_.outputs * spec_.inputs) ||
      bias != static_cast<std::size_t>(spec_.outputs)) {
    throw std::invalid_argument(
        fmt::format("{}: expected {}.weight ({}, {}) and {}.bias ({}), found {} and {} values; "
                    "these parameters are of another model",
                    spec_.path, spec_.path, spec_.outputs, spec_.inputs, spec_.path, spec_.outputs,
                    weight, bias));
  }
}

}  // namespace sluice::kernels
