#include <sluice/law.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/timeline.hpp>

namespace sluice {
namespace {

using testing::ElementsAre;

TEST(Law, CreditsOfFourStages) {
  EXPECT_THAT(law::credits(4, 0), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(law::credits(4, 1), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(law::credits(4, 2), ElementsAre(3, 3, 2, 1));
  EXPECT_THAT(law::credits(4, 3), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(law::credits(4, 5), ElementsAre(6, 5, 4, 3));
  EXPECT_THAT(law::credits(1, 2), ElementsAre(3));
}

TEST(Law, GateIsTheSmallestCreditUnlessThereAreFewerMicrobatches) {
  EXPECT_EQ(law::gate(8, std::vector<int>{6, 5, 4, 3}), 3);
  EXPECT_EQ(law::gate(2, std::vector<int>{6, 5, 4, 3}), 2);
  EXPECT_EQ(law::gate(8, std::vector<int>{7, 1, 3}), 1);
}

law::Offer offer(bool forward, bool backward) {
  law::Offer result;
  result.forward = forward;
  result.backward = backward;
  return result;
}

TEST(Law, ForwardFirstUnderACreditThenBackward) {
  law::LawStage stage(2);
  EXPECT_EQ(stage.next(offer(false, false)), std::nullopt);
  EXPECT_EQ(stage.next(offer(true, true)), Phase::forward);
  stage.forward_started();
  stage.forward_started();
  EXPECT_EQ(stage.next(offer(true, true)), Phase::backward);
  EXPECT_EQ(stage.next(offer(true, false)), std::nullopt);
  stage.released();
  EXPECT_EQ(stage.next(offer(true, true)), Phase::forward);
}

TEST(Law, TheGateOpensOnceAndStaysOpen) {
  law::LawStage last(3, 2);
  last.forward_started();
  EXPECT_EQ(last.next(offer(false, true)), std::nullopt);
  last.forward_started();
  EXPECT_EQ(last.next(offer(false, true)), Phase::backward);
  last.released();
  EXPECT_EQ(last.held(), 1);
  EXPECT_EQ(last.next(offer(false, true)), Phase::backward);
}

// Three loops that look right, and what becomes of them. Each is the obvious way to write the
// pipeline without a law per stage.

/// One loop for the whole pipeline, with a gate that is tested on every turn: returns how many
/// microbatches are still inside when nothing more happens.
int left_inside_by_retested_gate(int microbatches, int drain_depth) {
  int entered = 0;
  int retired = 0;
  for (bool moved = true; moved;) {
    moved = false;
    if (entered < microbatches) {
      ++entered;  // forward through all stages
      moved = true;
    }
    // The mistake: the tail, which has nothing entering behind it, is asked again.
    if (entered - retired >= drain_depth) {
      ++retired;  // backward through all stages
      moved = true;
    }
  }
  return entered - retired;
}

/// What our law leaves inside: forwards started minus backwards started on stage 0.
int left_inside_by_the_law(int stages, int microbatches, int drain_depth) {
  const auto credits = law::credits(stages, drain_depth);
  int inside = 0;
  for (const TimedAction& timed : simulate_law(stages, microbatches, credits, {}).actions) {
    if (timed.action.stage != StageId(0)) continue;
    inside += timed.action.phase == Phase::forward ? 1 : -1;
  }
  return inside;
}

TEST(NaiveLoop, ARetestedGateNeverDrainsTheTail) {
  EXPECT_EQ(left_inside_by_retested_gate(8, 3), 2);
  EXPECT_EQ(left_inside_by_the_law(4, 8, 3), 0);
}

TEST(NaiveLoop, ARetestedGateNeverStartsWithFewerMicrobatchesThanTheDepth) {
  EXPECT_EQ(left_inside_by_retested_gate(2, 3), 2);
  EXPECT_EQ(left_inside_by_the_law(4, 2, 3), 0);
}

/// The mistake, as it comes over from languages where 0 is false: `depth or stages - 1`.
int depth_or_default(int drain_depth, int stages) {
  return drain_depth != 0 ? drain_depth : stages - 1;
}

TEST(NaiveLoop, ZeroIsADepthAndNotAMissingOne) {
  const auto naive = law::credits(4, depth_or_default(0, 4));
  EXPECT_EQ(simulate_law(4, 8, naive, {}).entered_at_first_backward, 4);
  const auto ours = law::credits(4, 0);
  const Timeline one_at_a_time = simulate_law(4, 8, ours, {});
  EXPECT_EQ(one_at_a_time.entered_at_first_backward, 1);
  EXPECT_EQ(one_at_a_time.makespan, Time::from_units(8 * 4 * 2));
}

/// One backward wave of `stages` stages, in the order in which a loop would run it.
std::vector<Action> naive_backward_upwards(int stages, int mb) {
  std::vector<Action> wave;
  for (int s = 0; s < stages; ++s) {  // the mistake: the backward climbs
    wave.push_back(Action(StageId(s), Phase::backward, MicrobatchId(mb)));
  }
  return wave;
}

/// The microbatch numbers that the stages see when the number is advanced only after the delivery
/// to the next stage, so that the next stage reads the one after.
std::vector<int> naive_number_after_delivery(int stages, int microbatches) {
  std::vector<int> seen;
  int next = 0;
  for (int turn = 0; turn < microbatches; ++turn) {
    for (int s = 0; s < stages; ++s) {
      seen.push_back(next);
      if (s == 0) ++next;  // the mistake: shared, and advanced between two readers
    }
  }
  return seen;
}

bool falls(const std::vector<Action>& wave) {
  return std::is_sorted(wave.begin(), wave.end(),
                        [](const Action& a, const Action& b) { return a.stage > b.stage; });
}

TEST(NaiveLoop, TheBackwardFallsThroughTheStages) {
  EXPECT_FALSE(falls(naive_backward_upwards(4, 0)));
  const Timeline ours = simulate_law(4, 8, law::credits(4, 3), {});
  for (int mb = 0; mb < 8; ++mb) {
    std::vector<Action> wave;
    for (const TimedAction& timed : ours.actions) {
      if (timed.action.phase == Phase::backward && timed.action.mb == MicrobatchId(mb)) {
        wave.push_back(timed.action);
      }
    }
    EXPECT_EQ(wave.size(), 4U);
    EXPECT_TRUE(falls(wave)) << "microbatch " << mb;
  }
}

TEST(NaiveLoop, MicrobatchNumbersAscendOnEveryStageInBothPhases) {
  EXPECT_THAT(naive_number_after_delivery(2, 3), ElementsAre(0, 1, 1, 2, 2, 3));  // 3 is not there
  const Timeline ours = simulate_law(4, 8, law::credits(4, 3), {});
  for (int s = 0; s < 4; ++s) {
    int next_forward = 0;
    int next_backward = 0;
    for (const TimedAction& timed : ours.actions) {
      if (timed.action.stage != StageId(s)) continue;
      int& next = timed.action.phase == Phase::forward ? next_forward : next_backward;
      EXPECT_EQ(timed.action.mb, MicrobatchId(next++));
    }
    EXPECT_EQ(next_forward, 8);
    EXPECT_EQ(next_backward, 8);
  }
}

}  // namespace
}  // namespace sluice
