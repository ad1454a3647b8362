// Exploring a policy of your own in one line of a test:
//
//     EXPECT_EQ(fuzz::explore_policy(std::make_shared<MyPolicy>()), "");
//
// Every state of every small shape, and the real runtime in many orders. What comes back is empty, or says
// in which configuration what went wrong, then the smallest one with its order, then how to see it again.
#pragma once

#include <memory>
#include <string>

#include <sluice/policy.hpp>

namespace sluice::fuzz {

/// Every S, M and W up to these, W up to S + M.
struct SmallShapes {
  int stages = 3;
  int microbatches = 4;
  int runs = 20;  ///< of the runtime, for each
};

std::string explore_policy(const std::shared_ptr<Policy>& policy, const SmallShapes& up_to = {});

}  // namespace sluice::fuzz
