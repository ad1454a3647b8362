// The deterministic executor: any Asio coroutine code on one thread, in an order that a seed decides.
//
//     DeterministicContext context(seeded_picks(7));
//     context.spawn("producer", produce(context.get_executor(), queue));
//     context.spawn("consumer", consume(queue));
//     context.run();
//     for (const std::string& task : context.unfinished()) ...  // stuck, by name
//
// A context without threads, reactor or clock. What is posted waits; `run` picks from it, first in first
// out or as a strategy says, and returns when nothing can run and no timer pends: coroutines that are
// still alive then are stuck. Time is virtual: it stands still while anything can run, then jumps to the
// next timer. Nothing runs inside `execute`, and what is posted to one serial executor runs in the order
// in which it was posted: Asio's own contract, so that no impossible order is ever tried.
//
// Pipelines take `serial_per_rank(context, ranks)` or `any_order(context)`; an Asio strand on top would
// hide the choices. Not thread-safe; nothing may arrive from outside. The context outlives
// all work posted to it; its destructor drops what is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/execution.hpp>
#include <asio/execution_context.hpp>
#include <asio/post.hpp>

#include <sluice/executors.hpp>
#include <sluice/watchdog.hpp>

namespace sluice::replay {

class DeterministicContext : public asio::execution_context {
 public:
  class Executor;

  /// Handlers that keep their order among themselves, by the number of their serial executor.
  using Lane = std::uint32_t;
  static constexpr Lane no_lane = 0;                                         ///< keeps no order
  static constexpr Lane timer_lane = std::numeric_limits<Lane>::max();       ///< the next timer
  static constexpr Lane choice_lane = std::numeric_limits<Lane>::max() - 1;  ///< asked by `choose`

  /// Something that could run next.
  struct Runnable {
    Lane lane = no_lane;
    std::uint64_t number = 0;  ///< how many had been posted before it
  };
  /// Index of what runs next among at least one, oldest first.
  using Pick = std::function<std::size_t(std::span<const Runnable>)>;

  /// First in, first out.
  DeterministicContext() = default;
  explicit DeterministicContext(Pick pick) : pick_(std::move(pick)) {}
  ~DeterministicContext();
  DeterministicContext(const DeterministicContext&) = delete;
  DeterministicContext& operator=(const DeterministicContext&) = delete;

  /// Whatever is posted here may run before or after anything else.
  Executor get_executor();
  /// A new one, whose handlers run one after the other as they were posted: what a strand is on a pool.
  Executor make_serial_executor();

  /// Runs until nothing can run and no timer pends, or `most` handlers have run. Returns how many did.
  /// What a handler throws leaves `run`, which may be called again.
  std::size_t run(std::size_t most = std::numeric_limits<std::size_t>::max());
  /// Nothing can run and no timer pends.
  bool idle() const { return runnable_.empty() && timers_.empty(); }
  void set_pick(Pick pick) { pick_ = std::move(pick); }

  /// Runs `task` on a serial executor of its own. What it throws leaves `run`.
  void spawn(std::string name, asio::awaitable<void> task);
  /// The names of spawned tasks that have not ended; when `run` has returned and `idle`, they are stuck.
  std::vector<std::string> unfinished() const;

  /// A choice that is not about order: an index below `options`, 0 unless a strategy says otherwise.
  /// For faults: `if (context.choose(2) == 1) throw Lost();`
  std::size_t choose(std::size_t options);

  /// Virtual nanoseconds since the context was made.
  std::int64_t now_ns() const { return now_ns_; }
  /// Whether the next timer may expire while something can run: one option more for every pick.
  void let_timers_compete(bool compete) { timers_compete_ = compete; }

  /// Nothing of this lane runs until it is resumed: its worker has stopped.
  void stop_lane(Lane lane);
  void resume_lane(Lane lane);

  /// Completes with void() after `nanoseconds` of virtual time.
  template <class Token>
  auto async_sleep(std::int64_t nanoseconds, Token&& token) {
    return asio::async_initiate<Token, void()>(
        [this](auto handler, std::int64_t span) {
          add_timer(span, make_work([wake = std::move(handler)]() mutable {
                      asio::post(std::move(wake));
                    }));
        },
        token, nanoseconds);
  }

  /// Calls `ring` after `nanoseconds` of virtual time. Returns what `cancel_timer` takes.
  std::pair<std::int64_t, std::int64_t> call_after(std::int64_t nanoseconds,
                                                   std::function<void()> ring) {
    return add_timer(nanoseconds, make_work(std::move(ring)));
  }
  void cancel_timer(std::pair<std::int64_t, std::int64_t> timer) { timers_.erase(timer); }

 private:
  /// A callable that is moved, called once, and need not be copyable.
  struct Work {
    virtual ~Work() = default;
    virtual void call() = 0;

    std::unique_ptr<Work> next;  // of its lane
    Runnable id;
  };
  template <class F>
  static std::unique_ptr<Work> make_work(F function) {
    struct Holder final : Work {
      explicit Holder(F held) : function(std::move(held)) {}
      void call() override { std::move(function)(); }
      F function;
    };
    return std::make_unique<Holder>(std::move(function));
  }

  struct LaneState {
    std::unique_ptr<Work> first;  // behind the one that is runnable
    Work* last = nullptr;
    bool offered = false;  // its oldest handler is in runnable_
    bool stopped = false;
  };

  void enqueue(Lane lane, std::unique_ptr<Work> work);
  void offer(std::unique_ptr<Work> work);
  void offer_next(LaneState& lane);
  std::unique_ptr<Work> take(std::size_t index);
  std::size_t pick();
  void expire_timer();
  std::pair<std::int64_t, std::int64_t> add_timer(std::int64_t span, std::unique_ptr<Work> work);
  void drop_all();

  struct Task {
    std::string name;
    bool ended = false;
  };

  Pick pick_;
  std::vector<Runnable> runnable_;            // by number
  std::vector<std::unique_ptr<Work>> works_;  // of each
  std::vector<LaneState> lanes_;              // lane 1 first
  std::map<std::pair<std::int64_t, std::int64_t>, std::unique_ptr<Work>> timers_;
  std::vector<Task> tasks_;
  std::uint64_t posted_ = 0;
  std::int64_t timers_made_ = 0;
  std::int64_t now_ns_ = 0;
  bool timers_compete_ = false;
};

/// A handle; two of the same context and lane are equal. Never runs anything inside `execute`.
class DeterministicContext::Executor {
 public:
  explicit Executor(DeterministicContext& context, Lane lane = no_lane)
      : context_(&context), lane_(lane) {}

  Lane lane() const { return lane_; }

  DeterministicContext& query(asio::execution::context_t) const noexcept { return *context_; }
  static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
    return asio::execution::blocking.never;
  }

  template <class F>
  void execute(F function) const {
    context_->enqueue(lane_, make_work(std::move(function)));
  }

  friend bool operator==(const Executor& a, const Executor& b) noexcept {
    return a.context_ == b.context_ && a.lane_ == b.lane_;
  }
  friend bool operator!=(const Executor& a, const Executor& b) noexcept { return !(a == b); }

 private:
  DeterministicContext* context_;
  Lane lane_;
};

inline DeterministicContext::Executor DeterministicContext::get_executor() {
  return Executor(*this);
}

/// A lane a rank, made now: the orders are those of a strand a rank on a pool of any size.
StageExecutors serial_per_rank(DeterministicContext& context, int ranks);
/// Every rank on the context itself: what is posted to a rank may overtake what was posted before.
StageExecutors any_order(DeterministicContext& context);
/// Would let a clock say when a rank lets others in.
StageExecutors single_thread(DeterministicContext::Executor) = delete;

/// For PipelineOptions::alarm: deadlines in virtual time.
AlarmFactory virtual_alarm(DeterministicContext& context);

/// Picks that a seed decides, the same on every platform.
DeterministicContext::Pick seeded_picks(std::uint64_t seed);

/// Picks that bytes decide, one for each open decision; the oldest when they have come to their end. For
/// fuzzers. The bytes outlive the context.
DeterministicContext::Pick byte_picks(std::span<const std::uint8_t> bytes);

}  // namespace sluice::replay
