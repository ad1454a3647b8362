// The space that tune searches: numbers of microbatches, chunks, partitions, and what bounds each.
//
// A node is a pipeline without a schedule: how many microbatches, how many stages a rank, which
// layers on which stage. From it follow the costs and bytes of every stage and a lower bound of the
// makespan that holds for every schedule. Private to tune.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <sluice/tune.hpp>

namespace sluice::detail {

/// How stages lie on ranks.
enum class Placement : std::uint8_t {
  loop,  ///< stage s on rank s mod ranks
  v,     ///< two stages a rank, down and up again
};

struct Node {
  int microbatches = 1;
  int chunks = 1;
  Placement placement = Placement::loop;
  std::vector<int> partition;  // layers of each stage
  Time bound;                  // of every schedule
  Time whole_bound;            // of those that never split a backward
};

class TuneSpace {
 public:
  /// `request` is without errors, and must outlive this.
  explicit TuneSpace(const TuneRequest& request);

  /// All nodes by bound, the best of each number of microbatches and chunks first of all.
  /// Partitions that do not fit the memory with one microbatch are left out.
  const std::vector<Node>& nodes() const { return nodes_; }
  /// How many of them are the best of their kind.
  std::size_t leaders() const { return leaders_; }
  /// Whether every partition is among the nodes.
  bool exhaustive() const { return exhaustive_; }
  Time lower_bound() const { return lower_bound_; }

  Costs costs_of(const Node& node) const;
  Memory memory_of(const Node& node) const;

 private:
  void add_kind(int microbatches, int chunks, Placement placement);
  std::vector<std::vector<int>> partitions(int stages);
  std::vector<int> least_heaviest(int stages) const;
  void set_bounds(Node& node) const;
  int rank_of(const Node& node, int stage) const;
  Time link_between(int rank, int other) const;
  bool fits(const Node& node) const;

  const TuneRequest& request_;
  Costs layer_costs_;  // complete, but for the links
  std::vector<std::int64_t> held_;
  std::vector<std::int64_t> fixed_;
  std::vector<Node> leading_;
  std::vector<Node> nodes_;
  std::size_t leaders_ = 0;
  bool exhaustive_ = true;
  Time lower_bound_;
};

}  // namespace sluice::detail
