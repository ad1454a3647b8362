#include <sluice/replay/deterministic_executor.hpp>

#include <optional>

#include <sluice/random.hpp>

namespace sluice::replay {
namespace {

class VirtualAlarm final : public Alarm {
 public:
  explicit VirtualAlarm(DeterministicContext& context) : context_(context) {}
  ~VirtualAlarm() override { cancel(); }

  void start(std::chrono::nanoseconds after, std::function<void()> ring) override {
    timer_ = context_.call_after(after.count(), std::move(ring));
  }
  void cancel() override {
    if (timer_) context_.cancel_timer(*timer_);
    timer_.reset();
  }

 private:
  DeterministicContext& context_;
  std::optional<std::pair<std::int64_t, std::int64_t>> timer_;
};

}  // namespace

DeterministicContext::~DeterministicContext() {
  drop_all();
  shutdown();  // pipelines let go of their sleeping coroutines
  drop_all();
  destroy();
}

void DeterministicContext::drop_all() {
  // Dropping a handler may unwind a coroutine, which posts again.
  while (!idle() || !lanes_.empty()) {
    runnable_.clear();
    const auto works = std::exchange(works_, {});
    const auto timers = std::exchange(timers_, {});
    auto lanes = std::exchange(lanes_, {});
    for (LaneState& lane : lanes) {
      while (lane.first) lane.first = std::move(lane.first->next);  // not one inside the other
    }
  }
}

DeterministicContext::Executor DeterministicContext::make_serial_executor() {
  lanes_.emplace_back();
  return Executor(*this, static_cast<Lane>(lanes_.size()));
}

std::size_t DeterministicContext::run(std::size_t most) {
  std::size_t ran = 0;
  while (ran < most && !idle()) {
    if (runnable_.empty()) {
      expire_timer();
      continue;
    }
    const std::size_t index = pick();
    if (index == runnable_.size()) {
      expire_timer();
      continue;
    }
    const std::unique_ptr<Work> work = take(index);
    work->call();
    ++ran;
  }
  return ran;
}

std::size_t DeterministicContext::pick() {
  if (!pick_) return 0;
  if (!timers_compete_ || timers_.empty()) return pick_(runnable_);
  runnable_.push_back(Runnable{timer_lane, posted_});
  const std::size_t index = pick_(runnable_);
  runnable_.pop_back();
  return index;
}

std::size_t DeterministicContext::choose(std::size_t options) {
  if (!pick_) return 0;
  const std::vector<Runnable> offered(options, Runnable{choice_lane, posted_});
  return pick_(offered);
}

void DeterministicContext::expire_timer() {
  auto due = timers_.extract(timers_.begin());
  now_ns_ = due.key().first;
  due.mapped()->call();
}

std::pair<std::int64_t, std::int64_t> DeterministicContext::add_timer(std::int64_t span,
                                                                      std::unique_ptr<Work> work) {
  const std::pair key(now_ns_ + span, timers_made_++);
  timers_.emplace(key, std::move(work));
  return key;
}

void DeterministicContext::enqueue(Lane lane, std::unique_ptr<Work> work) {
  work->id = Runnable{lane, posted_++};
  if (lane == no_lane || lane > lanes_.size()) {  // beyond: the context is going
    offer(std::move(work));
    return;
  }
  LaneState& state = lanes_[lane - 1];
  if (!state.offered && !state.stopped) {
    state.offered = true;
    offer(std::move(work));
    return;
  }
  Work* const last = work.get();
  (state.first ? state.last->next : state.first) = std::move(work);
  state.last = last;
}

void DeterministicContext::offer(std::unique_ptr<Work> work) {
  std::size_t place = runnable_.size();
  while (place > 0 && runnable_[place - 1].number > work->id.number) --place;
  runnable_.insert(runnable_.begin() + static_cast<std::ptrdiff_t>(place), work->id);
  works_.insert(works_.begin() + static_cast<std::ptrdiff_t>(place), std::move(work));
}

void DeterministicContext::offer_next(LaneState& lane) {
  lane.offered = lane.first && !lane.stopped;
  if (!lane.offered) return;
  std::unique_ptr<Work> work = std::move(lane.first);
  lane.first = std::move(work->next);
  offer(std::move(work));
}

std::unique_ptr<DeterministicContext::Work> DeterministicContext::take(std::size_t index) {
  std::unique_ptr<Work> work = std::move(works_[index]);
  works_.erase(works_.begin() + static_cast<std::ptrdiff_t>(index));
  runnable_.erase(runnable_.begin() + static_cast<std::ptrdiff_t>(index));
  if (work->id.lane != no_lane) offer_next(lanes_[work->id.lane - 1]);
  return work;
}

void DeterministicContext::stop_lane(Lane lane) {
  LaneState& state = lanes_[lane - 1];
  state.stopped = true;
  for (std::size_t i = 0; i < runnable_.size(); ++i) {
    if (runnable_[i].lane != lane) continue;
    std::unique_ptr<Work> work = std::move(works_[i]);
    works_.erase(works_.begin() + static_cast<std::ptrdiff_t>(i));
    runnable_.erase(runnable_.begin() + static_cast<std::ptrdiff_t>(i));
    if (!state.first) state.last = work.get();
    work->next = std::move(state.first);
    state.first = std::move(work);
    state.offered = false;
    return;
  }
}

void DeterministicContext::resume_lane(Lane lane) {
  LaneState& state = lanes_[lane - 1];
  state.stopped = false;
  if (!state.offered) offer_next(state);
}

void DeterministicContext::spawn(std::string name, asio::awaitable<void> task) {
  const std::size_t number = tasks_.size();
  tasks_.push_back(Task{std::move(name)});
  asio::co_spawn(asio::any_io_executor(make_serial_executor()), std::move(task),
                 [this, number](const std::exception_ptr& error) {
                   tasks_[number].ended = true;
                   if (error) std::rethrow_exception(error);
                 });
}

std::vector<std::string> DeterministicContext::unfinished() const {
  std::vector<std::string> names;
  for (const Task& task : tasks_) {
    if (!task.ended) names.push_back(task.name);
  }
  return names;
}

namespace {
// Every turn a choice, and none a clock's.
constexpr Turns turn_by_turn{std::chrono::nanoseconds(0), std::chrono::nanoseconds(0)};
}  // namespace

StageExecutors serial_per_rank(DeterministicContext& context, int ranks) {
  std::vector<DeterministicContext::Executor> lanes;
  lanes.reserve(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) lanes.push_back(context.make_serial_executor());
  return StageExecutors([lanes = std::move(lanes)](
                            RankId rank) -> asio::any_io_executor { return lanes[rank.index()]; },
                        turn_by_turn);
}

StageExecutors any_order(DeterministicContext& context) {
  return StageExecutors(
      [executor = context.get_executor()](RankId) -> asio::any_io_executor { return executor; },
      turn_by_turn);
}

AlarmFactory virtual_alarm(DeterministicContext& context) {
  return [&context](const asio::any_io_executor&) -> std::unique_ptr<Alarm> {
    return std::make_unique<VirtualAlarm>(context);
  };
}

DeterministicContext::Pick seeded_picks(std::uint64_t seed) {
  return [random = KeyedRandom(seed, 0, "deterministic_executor", 0, "pick")](
             std::span<const DeterministicContext::Runnable> runnable) mutable -> std::size_t {
    return random.below(static_cast<std::uint32_t>(runnable.size()));
  };
}

DeterministicContext::Pick byte_picks(std::span<const std::uint8_t> bytes) {
  return [bytes, at = std::size_t{0}](
             std::span<const DeterministicContext::Runnable> runnable) mutable -> std::size_t {
    if (runnable.size() == 1 || at == bytes.size()) return 0;
    return bytes[at++] % runnable.size();
  };
}

}  // namespace sluice::replay
