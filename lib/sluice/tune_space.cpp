#include <sluice/tune_space.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>
#include <utility>

#include <sluice/partition.hpp>

namespace sluice::detail {
namespace {

// Beyond so many partitions of one kind only the promising ones are looked at.
constexpr std::size_t most_partitions = 60'000;

std::vector<std::int64_t> spread(const std::vector<std::int64_t>& list, int layers) {
  if (list.size() == static_cast<std::size_t>(layers)) return list;
  return std::vector(static_cast<std::size_t>(layers), list.empty() ? 0 : list.front());
}

/// The ways to cut `layers` into `stages`, or most_partitions + 1 where there are more.
std::size_t count_of(int layers, int stages) {
  // binomial(layers - 1, stages - 1), from the side on which it only grows.
  const int fewer = std::min(stages - 1, layers - stages);
  std::size_t count = 1;
  for (int k = 1; k <= fewer && count <= most_partitions; ++k) {
    count = count * static_cast<std::size_t>(layers - k) / static_cast<std::size_t>(k);
  }
  return std::min(count, most_partitions + 1);
}

/// Every way to cut, each once.
void cut_all(int layers, std::vector<int>& partition, std::size_t stage,
             std::vector<std::vector<int>>& all) {
  const int stages_left = static_cast<int>(partition.size() - stage);
  if (stages_left == 1) {
    partition[stage] = layers;
    all.push_back(partition);
    return;
  }
  for (int here = 1; layers - here >= stages_left - 1; ++here) {
    partition[stage] = here;
    cut_all(layers - here, partition, stage + 1, all);
  }
}

/// `partition`, and what comes of it when one or two borders move by a layer.
std::vector<std::vector<int>> neighbours_of(const std::vector<int>& partition) {
  std::vector<std::vector<int>> result{partition};
  for (int round = 0; round < 2; ++round) {
    const std::size_t so_far = result.size();
    for (std::size_t i = 0; i < so_far && result.size() < most_partitions / 8; ++i) {
      for (std::size_t border = 0; border + 1 < partition.size(); ++border) {
        for (const int by : {-1, 1}) {
          std::vector<int> moved = result[i];
          moved[border] += by;
          moved[border + 1] -= by;
          if (moved[border] >= 1 && moved[border + 1] >= 1) result.push_back(std::move(moved));
        }
      }
    }
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
  }
  return result;
}

}  // namespace

TuneSpace::TuneSpace(const TuneRequest& request)
    : request_(request),
      held_(spread(request.memory.per_microbatch, request.layers)),
      fixed_(spread(request.memory.fixed, request.layers)) {
  Costs by_layer = request.costs;
  by_layer.link.clear();
  layer_costs_ = complete(by_layer, request.layers);

  bool first = true;
  for (const int microbatches : request.choices) {
    const int most_chunks = request.ranks == 1 ? 1 : std::min(4, request.layers / request.ranks);
    for (int chunks = 1; chunks <= most_chunks; ++chunks) {
      add_kind(microbatches, chunks, Placement::loop);
      if (chunks == 2) add_kind(microbatches, chunks, Placement::v);
    }
  }
  for (const Node& node : nodes_) {
    if (first || node.bound < lower_bound_) lower_bound_ = node.bound;
    first = false;
  }
  if (!exhaustive_) {
    // What was left out has the same work, spread as evenly as it can be.
    for (const int microbatches : request.choices) {
      Node all{microbatches, 1, Placement::loop, {request.layers}, {}, {}};
      const Costs costs = costs_of(all);
      const Time whole = costs.backward[0] + costs.overhead;
      const Time split = costs.input_gradient[0] + costs.weight_gradient[0] + 2 * costs.overhead;
      const Time work = microbatches * (costs.forward[0] + costs.overhead + std::min(whole, split));
      const Time share = Time::from_millionths(work.millionths / request.ranks);
      lower_bound_ = std::min(lower_bound_, share);
    }
  }
  // No two are equal, so the order is the same everywhere.
  const auto by_bound = [](const Node& a, const Node& b) {
    return std::tie(a.bound, a.microbatches, a.chunks, a.placement, a.partition) <
           std::tie(b.bound, b.microbatches, b.chunks, b.placement, b.partition);
  };
  std::sort(nodes_.begin(), nodes_.end(), by_bound);
  std::sort(leading_.begin(), leading_.end(), by_bound);
  leaders_ = leading_.size();
  nodes_.insert(nodes_.begin(), leading_.begin(), leading_.end());
}

void TuneSpace::add_kind(int microbatches, int chunks, Placement placement) {
  const int stages = chunks * request_.ranks;
  Node best;
  bool found = false;
  for (auto& partition : partitions(stages)) {
    Node node{microbatches, chunks, placement, std::move(partition), {}, {}};
    if (!fits(node)) continue;
    set_bounds(node);
    if (!found || node.bound < best.bound) best = node;
    found = true;
    nodes_.push_back(std::move(node));
  }
  if (!found) return;
  leading_.push_back(best);
  Node even{microbatches, chunks, placement, even_partition(request_.layers, stages), {}, {}};
  set_bounds(even);
  if (even.partition != best.partition && fits(even)) leading_.push_back(std::move(even));
}

std::vector<std::vector<int>> TuneSpace::partitions(int stages) {
  std::vector<std::vector<int>> all;
  if (count_of(request_.layers, stages) <= most_partitions) {
    std::vector<int> partition(static_cast<std::size_t>(stages));
    cut_all(request_.layers, partition, 0, all);
    return all;
  }
  exhaustive_ = false;
  all = neighbours_of(least_heaviest(stages));
  all.push_back(even_partition(request_.layers, stages));
  return all;
}

/// The cut whose heaviest stage is lightest: the smallest limit that a greedy cut keeps.
std::vector<int> TuneSpace::least_heaviest(int stages) const {
  const auto work = [this](int layer) {
    const auto at = static_cast<std::size_t>(layer);
    return (layer_costs_.forward[at] + layer_costs_.backward[at]).millionths;
  };
  const auto cut = [&](std::int64_t limit) {
    std::vector<int> partition;
    std::int64_t here = 0;
    for (int layer = 0; layer < request_.layers; ++layer) {
      const int stages_left = stages - static_cast<int>(partition.size());
      const bool must = request_.layers - layer <= stages_left;  // one each from here on
      if (partition.empty() || must || here + work(layer) > limit) {
        partition.push_back(0);
        here = 0;
      }
      ++partition.back();
      here += work(layer);
    }
    return partition;
  };
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (int layer = 0; layer < request_.layers; ++layer) high += work(layer);
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (cut(middle).size() > static_cast<std::size_t>(stages)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return cut(low);
}

int TuneSpace::rank_of(const Node& node, int stage) const {
  if (node.placement == Placement::loop) return stage % request_.ranks;
  return stage < request_.ranks ? stage : 2 * request_.ranks - 1 - stage;
}

Time TuneSpace::link_between(int rank, int other) const {
  const auto& link = request_.costs.link;
  if (rank == other || link.empty()) return {};
  if (link.size() == 1) return link.front();
  // From the last rank back to the first there is no edge in the list: as slow as the slowest.
  if (rank - other > 1 || other - rank > 1) return *std::max_element(link.begin(), link.end());
  return link[static_cast<std::size_t>(std::min(rank, other))];
}

Costs TuneSpace::costs_of(const Node& node) const {
  Costs costs;
  costs.overhead = request_.costs.overhead;
  costs.sizes = request_.costs.sizes;
  const auto sum = [&](const std::vector<Time>& of_layer, std::size_t from, int count) {
    Time time;
    for (int i = 0; i < count; ++i) time += of_layer[from + static_cast<std::size_t>(i)];
    return Time::from_millionths(time.millionths * request_.microbatches / node.microbatches);
  };
  std::size_t layer = 0;
  const int stages = static_cast<int>(node.partition.size());
  for (int s = 0; s < stages; ++s) {
    const int count = node.partition[static_cast<std::size_t>(s)];
    costs.forward.push_back(sum(layer_costs_.forward, layer, count));
    costs.backward.push_back(sum(layer_costs_.backward, layer, count));
    costs.input_gradient.push_back(sum(layer_costs_.input_gradient, layer, count));
    costs.weight_gradient.push_back(sum(layer_costs_.weight_gradient, layer, count));
    if (s > 0) costs.link.push_back(link_between(rank_of(node, s - 1), rank_of(node, s)));
    layer += static_cast<std::size_t>(count);
  }
  return costs;
}

Memory TuneSpace::memory_of(const Node& node) const {
  Memory memory;
  memory.cap = request_.memory.cap;
  if (request_.memory.per_microbatch.empty() && request_.memory.fixed.empty()) return memory;
  std::size_t layer = 0;
  for (const int count : node.partition) {
    std::int64_t held = 0;
    std::int64_t fixed = 0;
    for (const std::size_t end = layer + static_cast<std::size_t>(count); layer < end; ++layer) {
      held += held_[layer];
      fixed += fixed_[layer];
    }
    // Rounded up: what does not quite fit does not fit.
    const std::int64_t all = held * request_.microbatches;
    memory.per_microbatch.push_back((all + node.microbatches - 1) / node.microbatches);
    memory.fixed.push_back(fixed);
  }
  return memory;
}

bool TuneSpace::fits(const Node& node) const {
  const Memory memory = memory_of(node);
  if (!memory.cap || memory.fixed.empty()) return true;
  std::vector<std::int64_t> fixed(static_cast<std::size_t>(request_.ranks), 0);
  std::vector<std::int64_t> held = fixed;
  for (std::size_t s = 0; s < node.partition.size(); ++s) {
    const auto rank = static_cast<std::size_t>(rank_of(node, static_cast<int>(s)));
    fixed[rank] += memory.fixed[s];
    held[rank] = std::max(held[rank], memory.per_microbatch[s]);
  }
  for (std::size_t r = 0; r < fixed.size(); ++r) {
    if (fixed[r] + held[r] > *memory.cap) return false;
  }
  return true;
}

void TuneSpace::set_bounds(Node& node) const {
  const Costs costs = costs_of(node);
  const auto stages = node.partition.size();
  const auto ranks = static_cast<std::size_t>(request_.ranks);
  const std::int64_t samples =
      costs.sizes.empty()
          ? node.microbatches
          : std::accumulate(costs.sizes.begin(), costs.sizes.end(), std::int64_t{0});
  const std::int64_t least =
      costs.sizes.empty() ? 1 : *std::min_element(costs.sizes.begin(), costs.sizes.end());
  const Time overhead = costs.overhead;
  // Per rank, over all microbatches: the forwards; the gradients that others wait for, the shortest
  // way they can be had; whole backwards; and the shortest that all of a backward can take.
  std::vector<Time> forwards(ranks), gradients(ranks), wholes(ranks), backwards(ranks);
  for (std::size_t s = 0; s < stages; ++s) {
    const auto r = static_cast<std::size_t>(rank_of(node, static_cast<int>(s)));
    const Time each = node.microbatches * overhead;
    const Time whole = samples * costs.backward[s] + each;
    const Time first_half = samples * costs.input_gradient[s] + each;
    const Time halves = first_half + samples * costs.weight_gradient[s] + each;
    forwards[r] += samples * costs.forward[s] + each;
    gradients[r] += std::min(whole, first_half);
    wholes[r] += whole;
    backwards[r] += std::min(whole, halves);
  }
  // The lowest stage of rank r is r: nothing reaches the rank, or leaves it, on a shorter way.
  Time in, out, whole_out;
  for (std::size_t r = 0; r < ranks; ++r) {
    node.bound = std::max(
        {node.bound, in + forwards[r] + backwards[r], in + forwards[r] + gradients[r] + out});
    node.whole_bound = std::max(node.whole_bound, in + forwards[r] + wholes[r] + whole_out);
    if (r + 1 == ranks) break;
    const Time link = costs.link[r];
    in += least * costs.forward[r] + overhead + link;
    const Time whole = least * costs.backward[r] + overhead;
    whole_out += whole + link;
    out += std::min(whole, least * costs.input_gradient[r] + overhead) + link;
  }
}

}  // namespace sluice::detail
