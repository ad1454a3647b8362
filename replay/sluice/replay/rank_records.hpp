// One rank's stream: its planned orders, where its steps begin, and their events.
//
// Used by the reader. Every record is checked when the stream is read; handing out a step's events
// afterwards cannot fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sluice/event.hpp>
#include <sluice/replay/planned_order.hpp>
#include <sluice/replay/record_pages.hpp>
#include <sluice/replay/step_decoder.hpp>

namespace sluice::replay {

class RankRecords {
 public:
  struct Step {
    std::int64_t number = 0;
    format::RecordPlace place;  ///< of the record that begins it
    std::size_t order = 0;      ///< index into `orders`
    std::int64_t lines = 0;     ///< in the text log
    bool done = false;          ///< the rank has come to its end
  };

  /// `bytes` outlives the object. Throws RecordingError.
  RankRecords(std::span<const std::byte> bytes, format::StreamPages pages, RankId rank, int stages,
              const std::string& file);

  const std::vector<PlannedOrder>& orders() const { return orders_; }
  const std::vector<Step>& steps() const { return steps_; }
  /// Whether the stream's beginning has fallen off a ring: then it begins with the first whole step that
  /// can be told.
  bool begins_late() const { return pages_.lost > 0; }
  /// Forgets the first steps: other ranks have them no more.
  void drop(std::size_t steps);
  /// All that happened in a step; nothing for an index beyond `steps`.
  StepDecoder decode(std::size_t step) const;

 private:
  void begin_step(const format::Record& record, format::RecordPlace place);
  void add_to_order(std::span<const std::byte> fields);

  std::span<const std::byte> bytes_;
  format::StreamPages pages_;
  RankId rank_;
  int stages_;
  std::vector<PlannedOrder> orders_;
  std::vector<Step> steps_;
  std::vector<Action> partial_;  // an order of which parts are still to come
  bool order_open_ = false;
};

}  // namespace sluice::replay
