// The engine's event queue: hands out what happens next in virtual time, a whole moment at once.
//
// Events are only ever pushed for now or later, so a radix heap does: an event sits in the bucket of
// the highest bit in which its time differs from now, and moves down as now comes closer. With the
// costs people use it moves once or twice; nothing is compared, and nothing is allocated once the
// buckets have grown. Private to the engine, which owns it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::detail {

/// `Event` has a member `at`, in whole units of virtual time, >= 0.
template <class Event>
class MomentQueue {
 public:
  bool empty() const { return filled_ == 0; }

  /// Requires `event.at` not before the moment taken last.
  void push(const Event& event) {
    const auto bucket = static_cast<std::size_t>(
        std::bit_width(static_cast<std::uint64_t>(event.at) ^ static_cast<std::uint64_t>(now_)));
    buckets_[bucket].push_back(event);
    filled_ |= std::uint64_t{1} << bucket;
  }

  /// Replaces `moment` by all events of the earliest time that has any, and returns that time.
  /// Events pushed for this same time afterwards are the next moment. Requires a non-empty queue.
  std::int64_t take(std::vector<Event>& moment) {
    if ((filled_ & 1) == 0) bring_down(static_cast<std::size_t>(std::countr_zero(filled_)));
    moment.clear();
    std::swap(moment, buckets_[0]);
    filled_ &= ~std::uint64_t{1};
    return now_;
  }

 private:
  /// Moves the lowest filled bucket's events down; the earliest of them end in bucket 0.
  void bring_down(std::size_t bucket) {
    std::vector<Event>& events = buckets_[bucket];
    now_ = std::min_element(events.begin(), events.end(), [](const Event& a, const Event& b) {
             return a.at < b.at;
           })->at;
    filled_ &= ~(std::uint64_t{1} << bucket);
    for (const Event& event : events) push(event);  // into lower buckets only
    events.clear();
  }

  std::array<std::vector<Event>, 64> buckets_;
  std::uint64_t filled_ = 0;  // bit b: bucket b holds something
  std::int64_t now_ = 0;
};

}  // namespace sluice::detail
