// Inbound: what an action is given, for a director that wants to see it.
//
// Made by the rank's loop, on the rank's executor, before the value moves into the stage function; gone
// when the action has ended. Where nobody wants to see values it holds none and costs a comparison.
#pragma once

#include <optional>
#include <type_traits>

#include <sluice/director.hpp>
#include <sluice/rank_core.hpp>
#include <sluice/stage.hpp>
#include <sluice/ticket.hpp>

namespace sluice::detail {

template <class Value>
class Inbound {
 public:
  /// The action has been entered, so that its ticket is not lost if this throws: what the director
  /// throws, or the traits. `rank` and `target`, which may be null, outlive it.
  Inbound(RankCore& rank, const Ticket<Value>& ticket, const Value* target)
      : rank_(rank), target_(target) {
    if constexpr (encodable) {
      // A weight gradient is given nothing.
      if (ticket.action.phase == Phase::weight_gradient) return;
      wanted_ = rank.wants_inbound();
      if (wanted_ == InboundValues::of_failures) keep(ticket.value);
      if (wanted_ == InboundValues::all) tell(ticket.value);
    }
  }

  /// The action has failed. Its own error is what counts: one more is not heard of.
  void failed() noexcept {
    if constexpr (encodable) {
      if (wanted_ != InboundValues::of_failures || !kept_) return;
      try {
        tell(*kept_);
      } catch (...) {  // NOLINT(bugprone-empty-catch)
      }
    }
  }

  /// The action has ended well: nobody will ask.
  void ended() { kept_.reset(); }

 private:
  static constexpr bool encodable =
      requires(const Value& value) { WireTraits<Value>::encode(value); };

  void keep(const Value& value) {
    if constexpr (requires { WireTraits<Value>::keep(value); }) {
      kept_.emplace(WireTraits<Value>::keep(value));
    } else if constexpr (std::is_trivially_copyable_v<Value>) {
      kept_.emplace(value);
    }
  }

  void tell(const Value& input) {
    rank_.inbound(InboundValue::Role::input, WireTraits<Value>::encode(input));
    if (target_ == nullptr) return;
    rank_.inbound(InboundValue::Role::target, WireTraits<Value>::encode(*target_));
  }

  RankCore& rank_;
  const Value* target_;
  InboundValues wanted_ = InboundValues::none;
  std::optional<Value> kept_;
};

}  // namespace sluice::detail
