#include <sluice/schedule_comms.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace sluice::detail {
namespace {

constexpr std::array<std::pair<std::string_view, CommKind>, 7> words{{
    {"SEND_F", CommKind::send_forward},
    {"RECV_F", CommKind::receive_forward},
    {"SEND_B", CommKind::send_backward},
    {"RECV_B", CommKind::receive_backward},
    {"UNSHARD", CommKind::parameters},
    {"RESHARD", CommKind::parameters},
    {"REDUCE_GRAD", CommKind::parameters},
}};

constexpr std::size_t transfers = 4;  // kinds of cells that move a value

std::string cell_of(CommKind kind, StageId stage, MicrobatchId mb) {
  return fmt::format("{}{}{}", stage.value, words[static_cast<std::size_t>(kind)].first, mb.value);
}

class Checker {
 public:
  Checker(const Schedule& schedule, int microbatches, const std::vector<CommCell>& cells)
      : schedule_(schedule),
        cells_(cells),
        row_(static_cast<std::size_t>(microbatches)),
        made_(2 * schedule.rank_of.size() * row_, 0),
        seen_(transfers * schedule.rank_of.size() * row_, 0) {
    for (const auto& order : schedule.order) {
      for (std::size_t k = 0; k < order.size(); ++k) {
        const Action& action = order[k];
        if (action.phase == Phase::weight_gradient) continue;
        made(action.phase != Phase::forward, action.stage, action.mb) = k;
      }
    }
  }

  std::optional<CommError> check() {
    bool any = false;
    for (const CommCell& cell : cells_) {
      auto expected = expected_instead(cell);
      if (!expected.empty())
        return CommError{cell.rank, cell.column, cell.text, std::move(expected)};
      any = any || cell.kind != CommKind::parameters;
    }
    if (!any) return std::nullopt;
    if (auto error = missing()) return error;
    return stuck();
  }

 private:
  std::size_t at(std::size_t table, StageId stage, MicrobatchId mb) const {
    return (table * schedule_.rank_of.size() + stage.index()) * row_ + mb.index();
  }
  std::size_t& made(bool backward, StageId stage, MicrobatchId mb) {
    return made_[at(backward ? 1 : 0, stage, mb)];
  }
  std::uint8_t& seen(CommKind kind, StageId stage, MicrobatchId mb) {
    return seen_[at(static_cast<std::size_t>(kind), stage, mb)];
  }

  /// The stage at the other end; nothing when there is none, or it is on the same rank.
  std::optional<StageId> other_end(CommKind kind, StageId stage) const {
    const bool down = kind == CommKind::send_forward || kind == CommKind::receive_backward;
    const auto last = static_cast<std::int32_t>(schedule_.rank_of.size()) - 1;
    if (down ? stage.value == last : stage.value == 0) return std::nullopt;
    const StageId other = down ? stage.next() : stage.previous();
    if (schedule_.rank_of[other.index()] == schedule_.rank_of[stage.index()]) return std::nullopt;
    return other;
  }

  /// Why `cell` cannot stand where it does; empty when it can.
  std::string expected_instead(const CommCell& cell) {
    const auto stages = schedule_.rank_of.size();
    if (cell.stage.index() >= stages) return fmt::format("a stage from 0 to {}", stages - 1);
    const RankId owner = schedule_.rank_of[cell.stage.index()];
    if (owner != cell.rank) {
      return fmt::format("stage {} on rank {} alone", cell.stage.value, owner.value);
    }
    if (cell.kind == CommKind::parameters) return "";
    if (cell.mb.index() >= row_) return fmt::format("a microbatch from 0 to {}", row_ - 1);
    if (!other_end(cell.kind, cell.stage))
      return "a value that goes to, or comes from, another rank";
    if (std::exchange(seen(cell.kind, cell.stage, cell.mb), 1) != 0) return "each value once";
    const bool backward =
        cell.kind == CommKind::send_backward || cell.kind == CommKind::receive_backward;
    const bool sends = cell.kind == CommKind::send_forward || cell.kind == CommKind::send_backward;
    const std::size_t action = made(backward, cell.stage, cell.mb);
    const std::string name =
        fmt::format("{}{}{}", cell.stage.value, backward ? "B or I" : "F", cell.mb.value);
    if (sends && action >= cell.position) return name + " before it";
    if (!sends && action < cell.position) return name + " behind it";
    return "";
  }

  /// With one transfer in the file, all have to be there.
  std::optional<CommError> missing() {
    for (std::size_t kind = 0; kind < transfers; ++kind) {
      for (StageId stage(0); stage.index() < schedule_.rank_of.size(); stage = stage.next()) {
        if (!other_end(static_cast<CommKind>(kind), stage)) continue;
        for (MicrobatchId mb(0); mb.index() < row_; mb = mb.next()) {
          if (seen(static_cast<CommKind>(kind), stage, mb) != 0) continue;
          return CommError{schedule_.rank_of[stage.index()],
                           std::numeric_limits<std::size_t>::max(), "the end",
                           cell_of(static_cast<CommKind>(kind), stage, mb) + ", which is missing"};
        }
      }
    }
    return std::nullopt;
  }

  /// Every row runs its cells in order; a receive waits for its send.
  std::optional<CommError> stuck() {
    std::vector<std::vector<const CommCell*>> rows(schedule_.order.size());
    for (const CommCell& cell : cells_) {
      if (cell.kind != CommKind::parameters) rows[cell.rank.index()].push_back(&cell);
    }
    std::fill(seen_.begin(), seen_.end(), 0);  // from here on: sent
    std::vector<std::size_t> done(rows.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < rows.size(); ++r) {
        while (done[r] < rows[r].size() && can_run(*rows[r][done[r]])) {
          ++done[r];
          moved = true;
        }
      }
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (done[r] == rows[r].size()) continue;
      const CommCell& cell = *rows[r][done[r]];
      return CommError{cell.rank, cell.column, cell.text,
                       "an order of transfers that can finish: here every rank waits for another"};
    }
    return std::nullopt;
  }

  bool can_run(const CommCell& cell) {
    if (cell.kind == CommKind::send_forward || cell.kind == CommKind::send_backward) {
      seen(cell.kind, cell.stage, cell.mb) = 1;
      return true;
    }
    const CommKind sent =
        cell.kind == CommKind::receive_forward ? CommKind::send_forward : CommKind::send_backward;
    return seen(sent, *other_end(cell.kind, cell.stage), cell.mb) != 0;
  }

  const Schedule& schedule_;
  const std::vector<CommCell>& cells_;
  std::size_t row_;
  std::vector<std::size_t> made_;   // by direction, stage, microbatch: position in its row
  std::vector<std::uint8_t> seen_;  // by kind, stage, microbatch
};

}  // namespace

std::optional<CommCell> parse_comm(std::string_view text) {
  for (const auto& [word, kind] : words) {
    const auto at = text.find(word);
    if (at == std::string_view::npos) continue;
    const std::string_view behind = text.substr(at + word.size());
    if (kind == CommKind::parameters && !behind.empty()) return std::nullopt;
    // The numbers are those of an action.
    std::string numbers(text.substr(0, at));
    numbers += 'F';
    numbers += kind == CommKind::parameters ? "0" : std::string(behind);
    const auto action = parse_action(numbers);
    if (!action) return std::nullopt;
    CommCell cell;
    cell.kind = kind;
    cell.stage = action->stage;
    cell.mb = action->mb;
    cell.text = text;
    return cell;
  }
  return std::nullopt;
}

std::optional<CommError> check_comms(const Schedule& schedule, int microbatches,
                                     const std::vector<CommCell>& cells) {
  if (cells.empty()) return std::nullopt;
  return Checker(schedule, microbatches, cells).check();
}

}  // namespace sluice::detail
