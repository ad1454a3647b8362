// One rank in one step: what has arrived, what its director says, what it has done.
//
// Everything but `file` and `nudge` is called by the rank's own loop on the rank's executor. Values do
// not appear here; rank_loop.hpp, which knows their type, does the work in between.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/use_awaitable.hpp>

#include <sluice/director.hpp>
#include <sluice/event.hpp>
#include <sluice/messages.hpp>
#include <sluice/metrics.hpp>
#include <sluice/ready_set.hpp>
#include <sluice/stage.hpp>
#include <sluice/ticket.hpp>
#include <sluice/turn.hpp>
#include <sluice/wait_graph.hpp>

namespace sluice::detail {

class StepCore;

/// When something happened in a step, by cause and not by time: a rank's logical clock, then its
/// number.
struct Place {
  std::int64_t lamport = 0;
  RankId rank;

  auto operator<=>(const Place&) const = default;
  /// After everything that ranks do.
  static Place last() { return {std::numeric_limits<std::int64_t>::max(), RankId()}; }
};

class RankCore : public OutsideSource {
 public:
  /// `step` and `pace`, which other steps have used before, outlive the rank. `actions`: how many this
  /// rank runs in a whole step.
  RankCore(StepCore& step, RankId id, std::size_t actions, asio::any_io_executor executor,
           Pace& pace, std::unique_ptr<RankDirector> director);

  RankId id() const { return id_; }
  const asio::any_io_executor& executor() const { return berth_.executor(); }
  /// The same, for `send`.
  const asio::any_io_executor& messages() const { return berth_.messages(); }

  // --- when the executor's context is going: nothing runs any more ---

  /// Forgets the sleeping loop and the executor, and returns every ticket, as `stop`.
  TicketBase* give_up() noexcept;

  // --- from any thread ---

  /// Hands a ticket in and wakes the rank when it sleeps. False: the rank has stopped.
  bool file(TicketBase& ticket);
  /// Makes the rank ask its director again. `brisk`: as for Berth::call.
  void nudge(const Berth* brisk = nullptr);
  /// How far the rank has come. A moment's impression while it runs, exact while it sleeps.
  RankPosition position() const;

  // --- the rank's loop ---

  /// Takes in what has arrived and asks the director. Index into `ready().options()`.
  std::size_t decide();
  ReadySet& ready() { return ready_; }

  /// Sleeps until something arrives or the step is to end.
  auto arrival() {
    return asio::async_initiate<const asio::use_awaitable_t<>, void()>(
        [this](Resumer<> sleeper) { sleep(std::move(sleeper)); }, asio::use_awaitable);
  }

  Pace& pace() { return pace_; }
  /// Lets others on this executor have their turn, an embedder's sockets among them.
  auto turn_over() { return berth_.take_a_trip(brisk()); }

  /// Whether this is still the rank's executor for sure: nothing has suspended since its loop was woken.
  bool at_home() const { return berth_.has_its_turn(); }
  /// From whatever executor a stage function has returned on back to the rank's own.
  auto come_home() { return berth_.take_a_trip(); }

  bool finished() const { return started_ == actions_; }

  void enter(TicketBase& ticket);
  /// `hash`: of the output, when somebody wants it and the value's type has one.
  void exit(TicketBase& ticket, std::optional<std::uint64_t> hash);
  void failed(const TicketBase& ticket);
  /// Of what it did last.
  Place place() const { return {lamport_, id_}; }
  /// Of the update: kind committed or aborted.
  void updated(Event::Kind kind, StageId stage, std::optional<std::uint64_t> state_hash);

  /// A stage function of the running action reads something from outside.
  std::string outside(std::string_view name, const std::function<std::string()>& read) override;

  /// The rank runs nothing more. Returns every ticket it still has, in hand and waiting, as a list
  /// through `next`, so that their owners can be told. Allocates nothing.
  TicketBase* stop() noexcept;

  bool wants_hashes() const { return director_->wants_hashes(); }
  InboundValues wants_inbound() const { return director_->wants_inbound(); }
  /// The running action was given this.
  void inbound(InboundValue::Role role, std::string_view bytes);
  std::vector<Event>& events() { return events_; }
  const RankMetrics& metrics() const { return metrics_; }

 private:
  void sleep(Resumer<> sleeper);
  TicketBase* take_all() noexcept;
  void publish(const Action& action, bool running, bool ended);
  void count(const Event& event);
  void count_stage(const Event& event);
  void count_sleep();
  void wake(const Berth* brisk);
  /// Its berth while its actions are short, else null.
  const Berth* brisk() const { return pace_.brisk() ? &berth_ : nullptr; }
  void tell(Event event);

  StepCore& step_;
  RankId id_;
  std::size_t actions_;
  Pace& pace_;
  std::unique_ptr<RankDirector> director_;

  Inbox inbox_;
  Berth berth_;  // written before `park`, read by whoever found the inbox parked
  ReadySet ready_;
  TicketBase* arrived_ = nullptr;  // taken out of the inbox, on the way into the ready set
  std::uint32_t started_ = 0;
  std::int64_t local_ = 0;
  std::int64_t lamport_ = 0;
  std::uint32_t forwards_ = 0;
  TicketBase* in_hand_ = nullptr;        // the running action's
  std::vector<std::string> names_read_;  // by the running action
  std::vector<Event> events_;
  RankMetrics metrics_;
  int held_ = 0;
  std::vector<int> held_by_stage_;            // as metrics_.stages
  std::size_t stage_ = 0;                     // of these, the running action's
  std::int64_t entered_ns_ = 0;               // the running action's
  std::optional<std::int64_t> asleep_since_;  // until the next decision
  std::optional<std::int64_t> idle_since_;    // until the next action

  // What `position` reads, packed so that it costs two plain stores an action.
  std::atomic<std::uint64_t> published_action_{0};
  std::atomic<std::uint64_t> published_counts_{0};
};

}  // namespace sluice::detail
