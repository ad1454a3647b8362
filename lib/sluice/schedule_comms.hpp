// The communication cells of a schedule file: `0SEND_F3`, `1RECV_F3`, `2UNSHARD`.
//
// The runtime moves values by itself and needs none of them. But a file that has them claims an order
// in which they work, and that claim is checked: every value that crosses ranks is sent once, after it
// was made, and received once, before it is used, and no receive waits for ever. Called by
// schedule_csv.cpp alone; pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/schedule.hpp>

namespace sluice::detail {

enum class CommKind : std::uint8_t {
  send_forward,
  receive_forward,
  send_backward,
  receive_backward,
  parameters,  ///< UNSHARD, RESHARD, REDUCE_GRAD: about a stage's own weights
};

struct CommCell {
  CommKind kind = CommKind::parameters;
  StageId stage;
  MicrobatchId mb;  // not of parameters
  std::string text;
  RankId rank;
  std::size_t column = 0;    // in its row
  std::size_t position = 0;  // how many actions stand before it in its row
};

/// The kind, stage, mb and text; nothing when `text` is anything else.
std::optional<CommCell> parse_comm(std::string_view text);

struct CommError {
  RankId rank;
  std::size_t column = 0;  // one past the last of the row when something is missing
  std::string found;
  std::string expected;
};

/// The first thing wrong with `cells`, which are in the order of their rows and columns. Requires a
/// schedule that check_schedule has passed. No SEND and no RECV at all is right too.
std::optional<CommError> check_comms(const Schedule& schedule, int microbatches,
                                     const std::vector<CommCell>& cells);

}  // namespace sluice::detail
