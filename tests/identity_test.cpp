// Identity: what differs is listed before anything runs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/replay/identity.hpp>

#include "recorded_run.hpp"
#include "recording_support.hpp"

namespace sluice::replay {
namespace {

const Identity recorded{{"isa", "avx512_core"}, {"threads", "8"}, {"build", "1f"}, {"seed", "3"}};

TEST(Identity, EqualIdentitiesAreComparable) {
  EXPECT_TRUE(compare_identities(recorded, recorded).empty());
  EXPECT_TRUE(compare_identities({}, {}).empty());
}

TEST(Identity, EveryDifferenceIsListedByName) {
  const Identity found{{"seed", "3"}, {"threads", "4"}, {"isa", "avx2"}, {"compiler", "g++"}};
  const auto differences = compare_identities(recorded, found);
  EXPECT_EQ(to_string(differences),
            "build: recorded 1f, here (absent)\n"
            "compiler: recorded (absent), here g++\n"
            "isa: recorded avx512_core, here avx2\n"
            "threads: recorded 8, here 4\n");
}

TEST(Identity, AllowedDifferencesAreNotListed) {
  const Identity found{{"isa", "avx2"}, {"threads", "4"}, {"build", "1f"}, {"seed", "3"}};
  const std::vector<std::string> allowed{"isa"};
  const auto differences = compare_identities(recorded, found, allowed);
  EXPECT_EQ(to_string(differences), "threads: recorded 8, here 4\n");
}

TEST(Identity, PlansAreComparedToTheFirstOtherAction) {
  const test::TempFolder folder;
  test::ToyRun run;
  run.config = test::toy_config(3, 4);
  test::record_toy(run, folder.file("a"), {0, 0});
  const auto recording = Recording::open(folder.file("a"));
  Plan plan = derive_plan(run.config);
  EXPECT_TRUE(compare_plans(*recording, plan).empty());

  std::swap(plan.order[1][2], plan.order[1][3]);
  plan.order[2].pop_back();
  EXPECT_EQ(to_string(compare_plans(*recording, plan)),
            "order of rank 1: recorded 1B0 at position 2, here 1F2 at position 2\n"
            "order of rank 2: recorded 2B3 at position 7, here 7 actions\n");

  EXPECT_EQ(to_string(compare_plans(*recording, derive_plan(test::toy_config(2, 4)))),
            "stages: recorded 3, here 2\nranks: recorded 3, here 2\n");
}

}  // namespace
}  // namespace sluice::replay
