// Generators of pipelines for rapidcheck: `const auto shape = *gen_shape();`.
//
// Sizes stay small, because every mistake we know of shows within a few stages; what a failing
// property prints is one line that can be typed back into `sluice plan`.
// Called inside a property, on its thread. Times are in units, in steps of a hundredth.
#pragma once

#include <ostream>
#include <vector>

#include <rapidcheck.h>

#include <sluice/plan.hpp>
#include <sluice/timeline.hpp>

namespace sluice::fuzz {

/// S, M, W and one cost for every forward and backward.
struct Shape {
  int stages = 1;
  int microbatches = 1;
  int drain_depth = 0;
  Time forward;
  Time backward;

  Costs costs() const {
    Costs result;
    result.forward = {forward};
    result.backward = {backward};
    return result;
  }
};

/// S, M, a credit vector, and costs that differ from stage to stage and from edge to edge.
struct Uneven {
  int stages = 1;
  int microbatches = 1;
  std::vector<int> credits;
  Costs costs;

  /// A plan of it, in fixed order.
  PlanConfig config() const {
    PlanConfig result;
    result.stages = stages;
    result.microbatches = microbatches;
    result.credits = credits;
    result.costs = costs;
    return result;
  }
};

std::ostream& operator<<(std::ostream& out, const Shape& shape);
std::ostream& operator<<(std::ostream& out, const Uneven& uneven);

/// Time from `least` to 4 units in steps of a hundredth.
rc::Gen<Time> gen_time(Time least);

/// W up to M + S, beyond which nothing changes.
rc::Gen<Shape> gen_shape();

rc::Gen<Uneven> gen_uneven();

}  // namespace sluice::fuzz
