#include <sluice/kernels/model.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sluice::kernels {
namespace {

/// One DP table over (parts left, first layer).
class Table {
 public:
  Table(int parts, int layers, std::int64_t initial)
      : width_(static_cast<std::size_t>(layers) + 1),
        values_((static_cast<std::size_t>(parts) + 1) * width_, initial) {}

  std::int64_t& at(int parts, int first) {
    return values_[static_cast<std::size_t>(parts) * width_ + static_cast<std::size_t>(first)];
  }

 private:
  std::size_t width_;
  std::vector<std::int64_t> values_;
};

}  // namespace

Perceptron::Perceptron(std::vector<std::int64_t> of_widths) : widths(std::move(of_widths)) {
  if (widths.size() < 2 || *std::min_element(widths.begin(), widths.end()) < 1) {
    throw std::invalid_argument(
        fmt::format("model widths: expected at least two, each at least 1 (features first, classes "
                    "last), found [{}]; 784, 128, 10 is a model of two layers",
                    fmt::join(widths, ", ")));
  }
}

LinearSpec Perceptron::layer(int index) const {
  LinearSpec spec;
  spec.path = fmt::format("layers.{}", index);
  spec.inputs = widths[static_cast<std::size_t>(index)];
  spec.outputs = widths[static_cast<std::size_t>(index) + 1];
  spec.relu = index + 1 < layers();
  spec.input_gradient = index > 0;
  return spec;
}

Cost layer_cost(const Perceptron& model, int layer) {
  const LinearSpec spec = model.layer(layer);
  Cost cost;
  cost.forward = spec.inputs * spec.outputs;
  cost.input_gradient = spec.input_gradient ? cost.forward : 0;
  cost.weight_gradient = cost.forward;
  return cost;
}

std::vector<LayerRange> partition(std::span<const std::int64_t> costs, int stages) {
  const int layers = static_cast<int>(costs.size());
  if (stages < 1 || stages > layers) {
    throw std::invalid_argument(
        fmt::format("pipeline.stages: a model of {} layers: expected 1 to {} stages, found {}; use "
                    "fewer stages, or a model with more layers",
                    layers, layers, stages));
  }
  std::vector<std::int64_t> until(costs.size() + 1, 0);
  for (std::size_t i = 0; i < costs.size(); ++i) until[i + 1] = until[i] + costs[i];
  const auto sum = [&until](int first, int last) {
    return until[static_cast<std::size_t>(last)] - until[static_cast<std::size_t>(first)];
  };

  // The least possible cost of the costliest part, for every tail of the layers.
  Table most(stages, layers, std::numeric_limits<std::int64_t>::max());
  most.at(0, layers) = std::numeric_limits<std::int64_t>::min();
  for (int parts = 1; parts <= stages; ++parts) {
    for (int first = layers - parts; first >= 0; --first) {
      for (int last = first + 1; last <= layers - parts + 1; ++last) {
        most.at(parts, first) =
            std::min(most.at(parts, first), std::max(sum(first, last), most.at(parts - 1, last)));
      }
    }
  }
  const std::int64_t bound = most.at(stages, 0);

  // Within that bound, the greatest possible cost of the cheapest part.
  Table least(stages, layers, std::numeric_limits<std::int64_t>::min());
  least.at(0, layers) = std::numeric_limits<std::int64_t>::max();
  for (int parts = 1; parts <= stages; ++parts) {
    for (int first = layers - parts; first >= 0; --first) {
      for (int last = first + 1; last <= layers - parts + 1; ++last) {
        if (sum(first, last) > bound || most.at(parts - 1, last) > bound) continue;
        least.at(parts, first) =
            std::max(least.at(parts, first), std::min(sum(first, last), least.at(parts - 1, last)));
      }
    }
  }
  const std::int64_t floor = least.at(stages, 0);

  // Of the cuts that reach both, the one whose earlier parts are longest.
  std::vector<LayerRange> cut;
  int first = 0;
  for (int parts = stages; parts >= 1; --parts) {
    int last = layers - parts + 1;
    while (sum(first, last) > bound || sum(first, last) < floor ||
           most.at(parts - 1, last) > bound || least.at(parts - 1, last) < floor) {
      --last;
    }
    cut.emplace_back(first, last);
    first = last;
  }
  return cut;
}

std::vector<LayerRange> partition(const Perceptron& model, int stages) {
  std::vector<std::int64_t> costs;
  costs.reserve(static_cast<std::size_t>(model.layers()));
  for (int layer = 0; layer < model.layers(); ++layer) {
    costs.push_back(layer_cost(model, layer).total());
  }
  return partition(costs, stages);
}

void check_cut(const Perceptron& model, std::span<const LayerRange> cut) {
  std::vector<int> holders(static_cast<std::size_t>(model.layers()), 0);
  std::string found;
  bool in_order = true;
  int next = 0;
  for (const LayerRange& part : cut) {
    found += fmt::format("{}{}..{}", found.empty() ? "" : ", ", part.first, part.last - 1);
    in_order = in_order && part.first == next && part.last > part.first;
    next = part.last;
    for (int layer = std::max(part.first, 0); layer < std::min(part.last, model.layers());
         ++layer) {
      ++holders[static_cast<std::size_t>(layer)];
    }
  }
  if (in_order && next == model.layers()) return;
  std::vector<int> orphans;
  std::vector<int> shared;
  for (int layer = 0; layer < model.layers(); ++layer) {
    if (holders[static_cast<std::size_t>(layer)] == 0) orphans.push_back(layer);
    if (holders[static_cast<std::size_t>(layer)] > 1) shared.push_back(layer);
  }
  throw std::invalid_argument(
      fmt::format("cut of a model of {} layers: expected consecutive, non-empty parts that hold "
                  "layers 0..{} once each, found {}; in no part: [{}], in more than one: [{}]",
                  model.layers(), model.layers() - 1, found.empty() ? "no parts" : found,
                  fmt::join(orphans, ", "), fmt::join(shared, ", ")));
}

std::vector<Cost> stage_costs(const Perceptron& model, std::span<const LayerRange> cut) {
  check_cut(model, cut);
  std::vector<Cost> costs;
  for (const LayerRange& part : cut) {
    Cost sum;
    for (int layer = part.first; layer < part.last; ++layer) {
      const Cost cost = layer_cost(model, layer);
      sum.forward += cost.forward;
      sum.input_gradient += cost.input_gradient;
      sum.weight_gradient += cost.weight_gradient;
    }
    costs.push_back(sum);
  }
  return costs;
}

StageMemory stage_memory(const Perceptron& model, LayerRange layers, std::int64_t samples) {
  constexpr std::int64_t float_bytes = sizeof(float);
  StageMemory memory;
  for (int layer = layers.first; layer < layers.last; ++layer) {
    const LinearSpec spec = model.layer(layer);
    memory.per_microbatch += samples * spec.inputs * float_bytes;
    // Weights, velocity and the step's gradient.
    memory.parameters += 3 * (spec.inputs + 1) * spec.outputs * float_bytes;
  }
  const LinearSpec last = model.layer(layers.last - 1);
  if (last.relu) memory.per_microbatch += samples * last.outputs * float_bytes;
  return memory;
}

void check_edges(std::span<const StageShape> stages) {
  for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
    if (stages[s].output == stages[s + 1].input) continue;
    throw std::invalid_argument(fmt::format(
        "edge {} to {}: expected stage {} to take what stage {} gives, {}, found that "
        "it takes {}; change one of the two models",
        s, s + 1, s + 1, s, to_string(stages[s].output), to_string(stages[s + 1].input)));
  }
}

}  // namespace sluice::kernels
