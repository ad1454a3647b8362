#include <sluice/replay/schedule_replay.hpp>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <sluice/pipeline.hpp>
#include <sluice/replay/deterministic_executor.hpp>
#include <sluice/replay/error_text.hpp>
#include <sluice/replay/recorded_plan.hpp>

namespace sluice::replay {

// Not nameless: the pipeline's coroutines are instantiated with it.
struct Nothing {};

namespace {

/// What the stubs of a step have to do.
struct Script {
  std::set<Action> failing;
  std::optional<Action> named;    // of these, whose failure is the step's error
  std::string text;               // of that exception
  std::optional<StageId> update;  // whose update fails
  std::optional<MicrobatchId> source_ends;
  std::optional<MicrobatchId> source_fails;

  [[noreturn]] void fail(const Action& action) const {
    throw std::runtime_error(named == action ? text : "failed as recorded");
  }
};

Script script_of(const RecordedStep& step, const Plan& plan) {
  Script script;
  const auto empty = std::make_exception_ptr(std::runtime_error(""));
  for (const auto& events : step.ranks) {
    for (const Event& event : events) {
      if (event.kind != Event::Kind::failed) continue;
      script.failing.insert(event.action);
      if (names(step.error, event.action)) {
        script.named = event.action;
        script.text = step.error.substr(
            std::string_view(StepError::from_stage(event.action, empty).what()).size());
      }
    }
  }
  if (step.error.empty() || script.named) return script;
  for (MicrobatchId mb(0); mb.value < plan.microbatches; mb = mb.next()) {
    const auto end = std::make_exception_ptr(EndOfBatch());
    if (step.error == StepError::from_source(mb, plan.microbatches, end).what()) {
      script.source_ends = mb;
    } else if (step.error.starts_with(
                   StepError::from_source(mb, plan.microbatches, empty).what())) {
      script.source_fails = mb;
      script.text = step.error.substr(
          std::string_view(StepError::from_source(mb, plan.microbatches, empty).what()).size());
    }
  }
  for (StageId stage(0); stage.value < plan.stages; stage = stage.next()) {
    const std::string whole = StepError::from_update(stage, empty).what();
    const std::string_view beginning = std::string_view(whole).substr(0, whole.find(": ; ") + 2);
    const std::string_view end = std::string_view(whole).substr(beginning.size());
    if (!step.error.starts_with(beginning)) continue;
    script.update = stage;
    script.text = step.error.substr(beginning.size());
    // A text that was too long has lost its end already, and will again.
    if (script.text.ends_with(end)) script.text.resize(script.text.size() - end.size());
  }
  return script;
}

class StubStage final : public Stage<Nothing> {
 public:
  StubStage(StageId id, const Script& script) : id_(id), script_(script) {}

  asio::awaitable<Nothing> forward(ActionContext<Nothing>& context, Nothing) override {
    return run(context.action);
  }
  asio::awaitable<Gradients<Nothing>> backward(ActionContext<Nothing>& context, Nothing) override {
    if (script_.failing.contains(context.action)) script_.fail(context.action);
    co_return Gradients<Nothing>();
  }
  asio::awaitable<Nothing> input_gradient(ActionContext<Nothing>& context, Nothing) override {
    return run(context.action);
  }
  asio::awaitable<Nothing> weight_gradient(ActionContext<Nothing>& context) override {
    return run(context.action);
  }
  void accumulate(MicrobatchId, Nothing) override {}
  void prepare_update(std::int64_t) override {
    if (script_.update == id_) throw std::runtime_error(script_.text);
  }
  void commit() noexcept override {}
  void abort() noexcept override {}

 private:
  asio::awaitable<Nothing> run(Action action) {
    if (script_.failing.contains(action)) script_.fail(action);
    co_return Nothing();
  }

  StageId id_;
  const Script& script_;
};

class StubSource final : public BatchSource<Nothing> {
 public:
  explicit StubSource(const Script& script) : script_(script) {}

  asio::awaitable<MicrobatchData<Nothing>> next(MicrobatchId mb) override {
    if (script_.source_ends == mb) throw EndOfBatch();
    if (script_.source_fails == mb) throw std::runtime_error(script_.text);
    co_return MicrobatchData<Nothing>(Nothing(), Nothing(), 1);
  }

 private:
  const Script& script_;
};

/// A pipeline counts its own steps from 0; the recording's go on when the plan changes.
class Renumbered final : public Director {
 public:
  explicit Renumbered(std::shared_ptr<Director> inner) : inner_(std::move(inner)) {}
  std::unique_ptr<RankDirector> for_rank(const Plan& plan, RankId rank, std::int64_t) override {
    return inner_->for_rank(plan, rank, step);
  }
  void before_commit(std::int64_t) override { inner_->before_commit(step); }
  void step_ended(const StepEnd& end) override { inner_->step_ended(end); }

  std::int64_t step = 0;

 private:
  std::shared_ptr<Director> inner_;
};

bool is_updated(const RecordedStep& step) {
  if (!step.complete || !step.error.empty()) return true;
  for (const auto& events : step.ranks) {
    for (const Event& event : events) {
      if (event.kind == Event::Kind::committed) return true;
    }
  }
  return false;
}

}  // namespace

ScheduleReplay replay_schedule(const std::shared_ptr<const Recording>& recording,
                               const std::optional<ReplayPoint>& until) {
  ScheduleReplay result;
  Order order = recorded_order(*recording, 0);
  std::optional<Plan> plan = recorded_plan(*recording);
  if (!plan) {
    result.verdict = Verdict::recording_ends;
    return result;
  }
  ReplayOptions options;
  options.until = until;
  options.schedule_only = true;
  const auto replayer = std::make_shared<Replayer>(recording, *plan, nullptr, options);
  const auto director = std::make_shared<Renumbered>(replayer);
  Script script;
  DeterministicContext context;
  PipelineOptions of_pipeline;
  of_pipeline.executors = any_order(context);
  of_pipeline.director = director;
  std::optional<Pipeline<Nothing>> pipeline;
  std::int64_t accumulated = 0;
  while (replayer->more()) {
    const std::size_t index = replayer->steps();
    const RecordedStep step = recording->step(index);
    if (Order now = recorded_order(*recording, index); now != order) {
      plan = recorded_plan(*recording, index);
      if (!plan) break;  // killed between two plans: nothing of the step has happened
      order = std::move(now);
      pipeline.reset();
    }
    if (!pipeline) {
      // What was held is told by the actions; the credits that were not recorded hold nothing back.
      plan->credits.front() = plan->microbatches;
      pipeline.emplace(
          *plan,
          [&script](const StageContext& of) {
            return std::make_unique<StubStage>(of.stage, script);
          },
          of_pipeline);
    }
    script = script_of(step, *plan);
    director->step = step.number;
    constexpr std::int64_t more_passes_follow = std::int64_t{1} << 40;
    Batch<Nothing> batch(std::make_shared<StubSource>(script), plan->microbatches);
    batch.update = is_updated(step);
    batch.samples = batch.update ? accumulated + plan->microbatches : more_passes_follow;
    accumulated = batch.update ? 0 : accumulated + plan->microbatches;
    result.error.clear();
    pipeline->async_step(std::move(batch), [&result](std::exception_ptr error, StepResult) {
      if (error) result.error = text_of(error);
    });
    context.run();
  }
  result.verdict = replayer->verdict();
  result.divergence = replayer->divergence();
  result.steps = replayer->steps();
  result.actions = replayer->actions();
  result.events = replayer->events();
  return result;
}

}  // namespace sluice::replay
