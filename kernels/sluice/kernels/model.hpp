// Perceptron: a chain of linear layers with ReLUs between them, what each costs, and how it is cut.
//
// Pure data and arithmetic; called while a run is planned, by the command and by whoever makes
// stages. The last layer has no ReLU: its outputs are logits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sluice/kernels/linear.hpp>

namespace sluice::kernels {

struct Perceptron {
  /// Features first, classes last: {784, 128, 10} is two layers.
  std::vector<std::int64_t> widths;

  explicit Perceptron(std::vector<std::int64_t> of_widths);

  int layers() const { return static_cast<int>(widths.size()) - 1; }
  /// Layer `index` counts from 0 and is called "layers.<index>", whatever stage it lands on.
  LinearSpec layer(int index) const;
};

/// Work on one sample, in multiply-adds. They stand for time: the planner wants their ratios.
struct Cost {
  std::int64_t forward = 0;
  std::int64_t input_gradient = 0;  ///< 0 for the first layer of a model
  std::int64_t weight_gradient = 0;

  std::int64_t backward() const { return input_gradient + weight_gradient; }
  std::int64_t total() const { return forward + backward(); }
};

Cost layer_cost(const Perceptron& model, int layer);

/// Layers `first` to `last`, the last one not included.
struct LayerRange {
  int first = 0;
  int last = 0;

  LayerRange() = default;
  LayerRange(int from, int to) : first(from), last(to) {}
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

/// Cuts layers of these costs into `stages` consecutive parts, none empty, so that the costliest part
/// costs as little as possible. Among the cuts that reach it: the cheapest part costs as much as
/// possible; among those: earlier parts get more layers. So equal layers come out as even as they
/// can, 46 over 4 as 12, 12, 11, 11. Exact; O(stages * layers^2).
/// Throws std::invalid_argument unless 1 <= stages <= layers.
std::vector<LayerRange> partition(std::span<const std::int64_t> costs, int stages);

/// The same for a model, by the total cost of its layers.
std::vector<LayerRange> partition(const Perceptron& model, int stages);

/// What each part of a cut costs. Throws like `check_cut`.
std::vector<Cost> stage_costs(const Perceptron& model, std::span<const LayerRange> cut);

/// Throws std::invalid_argument unless the parts are non-empty and hold every layer of the model
/// once, in order; the message lists the layers that no part or two parts hold.
void check_cut(const Perceptron& model, std::span<const LayerRange> cut);

/// Bytes that a stage needs for as long as they are listed; padding and scratch memory come on top.
struct StageMemory {
  std::int64_t per_microbatch = 0;  ///< from a microbatch's forward to its backward
  std::int64_t parameters = 0;      ///< weights, velocity and gradient, always
};

StageMemory stage_memory(const Perceptron& model, LayerRange layers, std::int64_t samples);

/// What a stage takes and gives: (samples, width) each.
struct StageShape {
  Dims input;
  Dims output;
};

/// Throws std::invalid_argument at the first edge whose two stages disagree, naming the edge and
/// both shapes. For stages from different sources; parts of one model always agree.
void check_edges(std::span<const StageShape> stages);

}  // namespace sluice::kernels
