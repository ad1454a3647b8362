#include <sluice/turn.hpp>

#include <algorithm>
#include <utility>

#include <asio/execution.hpp>

namespace sluice::detail {

/// What a thread does with one trip through an executor's queue: a row of sleepers wake in it, one after
/// the other.
class Turn {
 public:
  using Clock = Pace::Clock;

  /// The one that this thread is in; null: none.
  static Turn* here() { return here_; }

  explicit Turn(Berth& first)
      : around_(std::exchange(here_, this)),
        now_(first.turn_.count() > 0 ? Clock::now() : Clock::time_point()),
        ends_(now_ + first.turn_),
        first_(&first) {
    for (last_ = first_; last_->behind_ != nullptr;) last_ = last_->behind_;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  /// Whoever is left goes on with another trip.
  ~Turn() {
    here_ = around_;
    if (first_ != nullptr) first_->depart(first_->continuations_);
  }

  void run() {
    const asio::any_io_executor executor = first_->executor_;
    do {
      current_ = std::exchange(first_, first_->behind_);
      current_->bed_.wake();  // awake it may end its step, and the berth be gone
      current_ = nullptr;
    } while (first_ != nullptr && now_ < ends_ && first_->executor_ == executor);
  }

  bool is_of(const Berth& berth) const { return current_ == &berth; }

  void queue_up(Berth& berth) {
    berth.behind_ = nullptr;
    (first_ == nullptr ? first_ : last_->behind_) = &berth;
    last_ = &berth;
  }

  /// When an action last ended. A look at the clock costs as much as the choice of an action, so ranks
  /// share it.
  Clock::time_point now() const { return now_; }
  void is_now(Clock::time_point now) { now_ = now; }
  Clock::time_point ends() const { return ends_; }

 private:
  Turn* const around_;  // of another pipeline, in one of whose stage functions this one began
  Clock::time_point now_;
  Clock::time_point ends_;
  Berth* current_ = nullptr;
  Berth* first_;
  Berth* last_;
  static constinit thread_local Turn* here_;
};

constinit thread_local Turn* Turn::here_ = nullptr;

void Pace::begin_turn() {
  if (turns_.length.count() == 0) return;
  const Turn* const turn = Turn::here();
  looked_ = turn != nullptr ? turn->now() : Clock::now();
  turn_ends_ = turn != nullptr ? turn->ends() : looked_ + turns_.length;
}

void Pace::action_ended() {
  if (turns_.length.count() == 0) return;
  const Clock::time_point now = Clock::now();
  action_took(now - looked_);
  looked_ = now;
  if (Turn* const turn = Turn::here()) turn->is_now(now);
}

void Pace::action_took(Clock::duration time) {
  score_ = time < turns_.short_action ? std::min(score_ + 1, 2 * enough)
                                      : std::max(score_ - enough / 2, 0);
}

Berth::Berth(asio::any_io_executor executor, std::chrono::nanoseconds turn)
    : executor_(std::move(executor)),
      messages_(for_messages(executor_)),
      continuations_(asio::prefer(messages_, asio::execution::relationship.continuation)),
      turn_(turn) {}

void Berth::call(const Berth* brisk) noexcept {
  Turn* const turn = Turn::here();
  if (brisk != nullptr && turn != nullptr && turn->is_of(*brisk)) return turn->queue_up(*this);
  behind_ = nullptr;
  depart(messages_);
}

void Berth::depart(const asio::any_io_executor& messages) noexcept {
  send(messages, [this] { Turn(*this).run(); });
}

bool Berth::has_its_turn() const {
  const Turn* const turn = Turn::here();
  return turn != nullptr && turn->is_of(*this);
}

void Berth::forget() noexcept {
  bed_.forget();
  executor_ = asio::any_io_executor();
  messages_ = asio::any_io_executor();
  continuations_ = asio::any_io_executor();
}

}  // namespace sluice::detail
