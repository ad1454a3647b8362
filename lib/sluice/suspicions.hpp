// Suspicions: records of one step that came before what they had to wait for.
//
// Such a record is not wrong yet. What it waits for may come later: then the order is wrong. It may
// never come: then that is what is wrong, and the records that waited are its consequences. StepJudge
// puts them in, and takes out what is settled. A value type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <sluice/complaints.hpp>

namespace sluice {

struct Suspicion {
  StageId stage;  // what it waits for: the event of a microbatch there
  MicrobatchId mb;
  std::uint32_t event = 0;
  LogRule if_late = LogRule::forward_order;
  LogLine at;  // the record that waits
  LastGood last;
};

class Suspicions {
 public:
  /// So many records may wait at once; beyond, each is wrong as it comes.
  static constexpr std::size_t most = 4096;

  bool full() const { return waiting_.size() == most; }
  void add(Suspicion suspicion) { waiting_.push_back(suspicion); }

  /// The event has come. Returns the first that waited for it; none of them waits any more.
  std::optional<Suspicion> settle(StageId stage, MicrobatchId mb, std::uint32_t event);

  /// Nothing more will come. All that still wait, those for one action together, each such group by
  /// seq; none waits any more.
  std::vector<std::vector<Suspicion>> settle_all();

 private:
  std::vector<Suspicion> waiting_;
};

}  // namespace sluice
