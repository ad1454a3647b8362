// The report of a divergence: how things stood, what came before it, and whether it comes again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/replay/diff.hpp>
#include <sluice/replay/investigation.hpp>
#include <sluice/replay/step_state.hpp>

#include "recorded_run.hpp"
#include "recording_support.hpp"

namespace sluice::replay {
namespace {

using test::Machine;
using test::record_toy;
using test::TempFolder;
using test::toy_config;
using test::ToyRun;
using testing::ElementsAre;
using testing::HasSubstr;

ToyRun adaptive_run(int steps = 3) {
  ToyRun run;
  run.config = toy_config(4, 9, OrderMode::adaptive);
  run.steps = steps;
  return run;
}

std::shared_ptr<const Recording> recorded(const ToyRun& run, Machine machine = {2, 6}) {
  const TempFolder folder;
  record_toy(run, folder.file("a"), machine);
  return Recording::open(folder.file("a"));
}

/// Replays `run`, whose n-th replay is on machine n, and looks into what differs.
Investigation investigated(const ToyRun& run, const std::shared_ptr<const Recording>& recording) {
  std::uint64_t replays = 0;
  const auto again = [&](const ReplayOptions& options) {
    auto replayer =
        std::make_shared<Replayer>(recording, derive_plan(run.config), nullptr, options);
    test::run_toy(run, replayer, Machine{2, ++replays}, [&] { return replayer->more(); });
    return replayer;
  };
  const auto first = again({});
  EXPECT_EQ(first->verdict(), Verdict::diverged);
  if (!first->divergence()) return {};
  return investigate(*first, {}, again);
}

TEST(Investigation, AChangedProgramDiffersInTheSamePlaceEachTime) {
  const auto recording = recorded(adaptive_run());
  ToyRun changed = adaptive_run();
  changed.weight = [](StageId stage) {
    return test::toy_weight(stage) + (stage.value == 2 ? 1e-9 : 0);
  };
  const Investigation found = investigated(changed, recording);
  EXPECT_EQ(found.nature, Nature::program_changed);
  EXPECT_EQ(found.elsewhere, "");
  const std::string report = to_string(found);
  EXPECT_THAT(report, HasSubstr("tensor differs at step 0"));
  EXPECT_THAT(report, HasSubstr("  recorded: exit 2F0"));
  EXPECT_THAT(report, HasSubstr("  last agreeing event: "));
  EXPECT_THAT(report, HasSubstr("  likely: "));
  EXPECT_THAT(report, HasSubstr("  ready on rank 2: "));
  EXPECT_THAT(report, HasSubstr("  held by stage: "));
  EXPECT_THAT(report, HasSubstr(" of 4,3,2,1 credits\n"));
  EXPECT_THAT(report, HasSubstr("  waiting for stage: forwards "));
  EXPECT_THAT(report, HasSubstr("  earlier and suspicious: nothing\n"));
  EXPECT_THAT(report, HasSubstr("the same difference each time, the program changed\n"));
}

TEST(Investigation, AProgramThatIsNotDeterministicIsToldApart) {
  const auto recording = recorded(adaptive_run());
  ToyRun changed = adaptive_run();
  // Another stage goes wrong in each replay.
  const auto replay = std::make_shared<std::atomic<int>>(0);
  changed.weight = [replay](StageId stage) {
    const int of_replay = replay->fetch_add(1) / 4;
    return test::toy_weight(stage) + (stage.value == of_replay % 4 ? 1e-9 : 0);
  };
  const Investigation found = investigated(changed, recording);
  EXPECT_EQ(found.nature, Nature::non_deterministic);
  EXPECT_THAT(found.elsewhere, HasSubstr("stage 1"));
  EXPECT_THAT(to_string(found), HasSubstr("not the same again, non-deterministic"));
}

TEST(Investigation, ADifferenceThatDoesNotComeAgainIsNotDeterministic) {
  const auto recording = recorded(adaptive_run());
  ToyRun changed = adaptive_run();
  const auto replay = std::make_shared<std::atomic<int>>(0);
  changed.weight = [replay](StageId stage) {
    return test::toy_weight(stage) + (replay->fetch_add(1) < 4 ? 1e-9 : 0);
  };
  const Investigation found = investigated(changed, recording);
  EXPECT_EQ(found.nature, Nature::non_deterministic);
  EXPECT_EQ(found.elsewhere, "no difference: same");
}

TEST(Investigation, TheLast64DecisionsBeforeTheDifferenceAreListed) {
  auto bytes = [&] {
    const TempFolder folder;
    record_toy(adaptive_run(), folder.file("a"), {2, 6});
    return test::bytes_of(folder.file("a"));
  }();
  // The recorded output of 1B8 in the last step, near its end.
  const RecordedStep step = Recording::parse(bytes, "a")->step(2);
  std::vector<std::byte> hash(8);
  for (const Event& event : step.ranks[1]) {
    if (event.kind == Event::Kind::exit && to_string(event.action) == "1B8") {
      format::put(hash.data(), event.hash);
    }
  }
  *std::search(bytes.begin(), bytes.end(), hash.begin(), hash.end()) ^= std::byte{1};
  test::reseal(bytes);
  const auto recording = Recording::parse(std::move(bytes), "a");
  const Investigation found = investigated(adaptive_run(), recording);
  EXPECT_EQ(found.divergence.step, 2);
  ASSERT_EQ(found.decisions.size(), decisions_kept);
  // The enters in front of the difference, in the order of the log, each with its own action ready.
  std::vector<Action> enters;
  std::vector<std::int64_t> seqs;
  std::int64_t seq = step.first_seq;
  for (const Event& event : merge_events(recording->step(2).ranks)) {
    if (event.kind != Event::Kind::enter && event.kind != Event::Kind::exit) continue;
    if (seq == found.divergence.seq) break;
    if (event.kind == Event::Kind::enter) enters.push_back(event.action), seqs.push_back(seq);
    ++seq;
  }
  for (std::size_t i = 0; i < decisions_kept; ++i) {
    const Decision& decision = found.decisions[i];
    const std::size_t at = enters.size() - decisions_kept + i;
    EXPECT_EQ(decision.action, enters[at]);
    EXPECT_EQ(decision.seq, seqs[at]);
    EXPECT_THAT(decision.ready, testing::Contains(decision.action));
  }
  EXPECT_THAT(to_string(found), HasSubstr("the last 64 decisions before it"));
}

TEST(Investigation, AnEarlierSuspiciousDifferenceIsNamed) {
  // Stage 1 no longer promises bits, and stage 2 differs: the first is no difference, but a hint.
  class Unsure final : public Stage<test::Toy> {
   public:
    explicit Unsure(std::unique_ptr<Stage<test::Toy>> stage) : stage_(std::move(stage)) {}
    asio::awaitable<test::Toy> forward(ActionContext<test::Toy>& context,
                                       test::Toy input) override {
      return stage_->forward(context, input);
    }
    asio::awaitable<Gradients<test::Toy>> backward(ActionContext<test::Toy>& context,
                                                   test::Toy output) override {
      return stage_->backward(context, output);
    }
    void accumulate(MicrobatchId mb, test::Toy contribution) override {
      stage_->accumulate(mb, contribution);
    }
    void prepare_update(std::int64_t step) override { stage_->prepare_update(step); }
    void commit() noexcept override { stage_->commit(); }
    void abort() noexcept override { stage_->abort(); }
    Determinism determinism() const override { return Determinism::tolerance; }

   private:
    std::unique_ptr<Stage<test::Toy>> stage_;
  };
  const auto recording = recorded(adaptive_run());
  ToyRun changed = adaptive_run();
  const auto hooks = std::make_shared<test::ToyHooks>();
  changed.factory = [hooks](const StageContext& context) -> std::unique_ptr<Stage<test::Toy>> {
    const double more = context.stage == StageId(2) ? 1e-9 : 0;
    auto stage = std::make_unique<test::ToyStage>(test::toy_weight(context.stage) + more, hooks);
    if (context.stage == StageId(1)) return std::make_unique<Unsure>(std::move(stage));
    return stage;
  };
  const Investigation found = investigated(changed, recording);
  EXPECT_EQ(found.divergence.stage, StageId(2));
  EXPECT_THAT(found.divergence.suspicious, HasSubstr("exit 1F0 has no hash now"));
}

TEST(StepState, IsWhatTheActionsSoFarHaveLeft) {
  ToyRun run;
  run.config = toy_config(3, 4);
  run.steps = 1;
  const auto recording = recorded(run, {0, 0});
  const RecordedStep step = recording->step(0);
  const Order order = derive_plan(run.config).order;
  std::vector<std::size_t> before(3, 0);
  StepState state = state_of(step, before, order, 3);
  EXPECT_EQ(list_of(state.ready[0]), "0F0");
  EXPECT_EQ(list_of(state.ready[1]), "nothing");
  EXPECT_THAT(state.held, ElementsAre(0, 0, 0));

  before = {4, 0, 0};  // 0F0 and 0F1 have ended
  state = state_of(step, before, order, 3);
  EXPECT_EQ(list_of(state.ready[0]), "0F2");
  EXPECT_EQ(list_of(state.ready[1]), "1F0 1F1");
  EXPECT_THAT(state.held, ElementsAre(2, 0, 0));
  EXPECT_THAT(state.forwards_waiting, ElementsAre(0, 2, 0));

  before = {4, 2, 2};  // and 1F0, 2F0
  state = state_of(step, before, order, 3);
  EXPECT_EQ(list_of(state.ready[2]), "2B0");
  EXPECT_THAT(state.backwards_waiting, ElementsAre(0, 0, 1));

  for (std::size_t r = 0; r < 3; ++r) before[r] = step.ranks[r].size();
  state = state_of(step, before, order, 3);
  EXPECT_THAT(state.held, ElementsAre(0, 0, 0));
  for (const auto& ready : state.ready) EXPECT_TRUE(ready.empty());
}

TEST(StepState, ReadySetsAreCompared) {
  const Action a(StageId(1), Phase::forward, MicrobatchId(3));
  const Action b(StageId(1), Phase::backward, MicrobatchId(2));
  EXPECT_EQ(compare_ready({a, b}, {a, b}), "1F3 1B2");
  EXPECT_EQ(compare_ready({a}, {b}), "1F3; found +1B2 -1F3");
  EXPECT_EQ(compare_ready({}, {b}), "nothing; found +1B2");
}

TEST(Coverage, SaysWhatWasComparedAndWhatNobodyKnows) {
  const auto recording = recorded(adaptive_run());
  const auto [replayer, outcome] = test::replay_toy(adaptive_run(), recording, {0, 0});
  const std::vector<std::string> unrecorded{"the clock", "vocabulary.txt"};
  const std::string text = coverage_of(*replayer, unrecorded);
  EXPECT_THAT(text, HasSubstr("the order of 216 actions; 228 outputs and states, bit by bit"));
  EXPECT_THAT(text, HasSubstr("not recorded, as declared: the clock, vocabulary.txt"));
  EXPECT_THAT(text, HasSubstr("of what stages read in other ways nothing is known"));
}

}  // namespace
}  // namespace sluice::replay
