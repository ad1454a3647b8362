#include <sluice/schedule_csv.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/finding.hpp>
#include <sluice/schedule_check.hpp>
#include <sluice/schedule_comms.hpp>

namespace sluice {
namespace {

constexpr std::string_view overlap_suffix = ")OVERLAP_F_B";

/// A cell as it stands in the text.
struct Cell {
  std::string_view text;   // without blanks round it
  std::size_t offset = 0;  // in its row
};

struct Row {
  std::string_view text;
  std::vector<Cell> cells;
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::vector<Row> rows_of(std::string_view text) {
  std::vector<Row> rows;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    Row& row = rows.emplace_back();
    row.text = line;
    for (std::size_t from = 0; from <= line.size();) {
      const std::size_t to = std::min(line.find(',', from), line.size());
      const std::string_view cell = trimmed(line.substr(from, to - from));
      row.cells.push_back(
          {cell, cell.empty() ? from : static_cast<std::size_t>(cell.data() - line.data())});
      from = to + 1;
    }
  }
  return rows;
}

/// Refuses the text because of one cell. `column` counts from 0; one past the last is the row's end.
[[noreturn]] void refuse(const std::vector<Row>& rows, std::size_t row, std::size_t column,
                         const std::string& found, const std::string& expected) {
  const bool there = row < rows.size() && column < rows[row].cells.size();
  std::string message = fmt::format("schedule, row {}, column {}: expected {}, found {}", row + 1,
                                    column + 1, expected, found);
  if (row < rows.size()) {
    // The row with an arrow; a long one is shown round the cell.
    const Row& shown = rows[row];
    const std::size_t offset = there ? shown.cells[column].offset : shown.text.size();
    const std::size_t from = offset > 40 ? offset - 40 : 0;
    fmt::format_to(std::back_inserter(message), "\n  {}\n  {:>{}}", shown.text.substr(from, 80),
                   '^', offset - from + 1);
  }
  Finding finding;
  finding.rule = "schedule";
  finding.key = "schedule";
  finding.expected = expected;
  finding.found = found;
  finding.message = std::move(message);
  throw ConfigError({std::move(finding)});
}

/// Why `text` is no action, as well as can be said.
std::string expected_action(std::string_view text, bool legacy) {
  if (!legacy && text.find("BW") != std::string_view::npos) {
    return "stage, one of F, B, I, W, microbatch (BW is the older notation: read it as legacy)";
  }
  return legacy ? "stage, one of F, B, W, BW, microbatch, as in 2F5"
                : "stage, one of F, B, I, W, microbatch, as in 2F5";
}

std::optional<Action> action_of(std::string_view text, bool legacy) {
  if (!legacy) return parse_action(text);
  std::string current(text);
  if (const auto at = current.find('I'); at != std::string::npos) return std::nullopt;
  if (const auto at = current.find("BW"); at != std::string::npos) {
    current.replace(at, 2, "B");
  } else if (const auto b = current.find('B'); b != std::string::npos) {
    current[b] = 'I';
  }
  return parse_action(current);
}

class Reader {
 public:
  Reader(std::string_view text, const ScheduleCsvOptions& options)
      : rows_(rows_of(text)), options_(options) {}

  ReadSchedule read() {
    if (rows_.empty()) refuse(rows_, 0, 0, "nothing", "a row for each rank");
    for (std::size_t r = 0; r < rows_.size(); ++r) read_row(r);
    const int stages = options_.stages.value_or(last_stage_ + 1);
    const int microbatches = options_.microbatches.value_or(last_mb_ + 1);
    check_range(stages, microbatches);
    place(stages);
    if (const auto error = check_schedule(schedule_, microbatches)) {
      const auto& columns = columns_[error->rank.index()];
      const std::size_t column = error->position < columns.size()
                                     ? columns[error->position]
                                     : rows_[error->rank.index()].cells.size();
      refuse(rows_, error->rank.index(), column, error->found, error->expected);
    }
    if (const auto error = detail::check_comms(schedule_, microbatches, comms_)) {
      const std::size_t row = error->rank.index();
      refuse(rows_, row, std::min(error->column, rows_[row].cells.size()), error->found,
             error->expected);
    }
    ReadSchedule read{std::move(schedule_), microbatches, {}};
    for (const Row& row : rows_) {
      auto& cells = read.cells.emplace_back();
      for (const Cell& cell : row.cells) cells.emplace_back(cell.text);
    }
    return read;
  }

 private:
  void read_row(std::size_t r) {
    schedule_.order.emplace_back();
    schedule_.overlapped.emplace_back();
    columns_.emplace_back();
    for (std::size_t column = 0; column < rows_[r].cells.size(); ++column) {
      const std::string_view text = rows_[r].cells[column].text;
      if (text.empty()) continue;  // an idle slot
      if (text.front() == '(') {
        read_pair(r, column, text);
      } else if (auto comm = detail::parse_comm(text)) {
        comm->rank = RankId(static_cast<std::int64_t>(r));
        comm->column = column;
        comm->position = schedule_.order.back().size();
        comms_.push_back(*std::move(comm));
      } else {
        read_action(r, column, text);
      }
    }
    if (schedule_.order.back().empty()) refuse(rows_, r, 0, "an empty row", "a rank's actions");
  }

  void read_pair(std::size_t r, std::size_t column, std::string_view text) {
    const auto semicolon = text.find(';');
    if (!text.ends_with(overlap_suffix) || semicolon == std::string_view::npos) {
      refuse(rows_, r, column, std::string(text), "a pair as in (0F7;7B3)OVERLAP_F_B");
    }
    schedule_.overlapped.back().push_back(schedule_.order.back().size());
    const auto end = text.size() - overlap_suffix.size();
    read_action(r, column, trimmed(text.substr(1, semicolon - 1)));
    read_action(r, column, trimmed(text.substr(semicolon + 1, end - semicolon - 1)));
  }

  void read_action(std::size_t r, std::size_t column, std::string_view text) {
    const auto action = action_of(text, options_.legacy);
    if (!action) {
      refuse(rows_, r, column, std::string(text), expected_action(text, options_.legacy));
    }
    last_stage_ = std::max(last_stage_, action->stage.value);
    last_mb_ = std::max(last_mb_, action->mb.value);
    schedule_.order.back().push_back(*action);
    columns_.back().push_back(column);
  }

  /// Before any table of that size is made. A text has at least one action for each id it names.
  void check_range(int stages, int microbatches) {
    std::size_t actions = 0;
    for (const auto& order : schedule_.order) actions += order.size();
    const auto most = static_cast<std::int64_t>(actions);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      for (std::size_t k = 0; k < schedule_.order[r].size(); ++k) {
        const Action& action = schedule_.order[r][k];
        const std::int64_t stages_here =
            options_.stages ? stages : std::min<std::int64_t>(most, stages);
        const std::int64_t mbs_here =
            options_.microbatches ? microbatches : std::min<std::int64_t>(most, microbatches);
        if (action.stage.value >= stages_here) {
          refuse(rows_, r, columns_[r][k], to_string(action),
                 fmt::format("a stage from 0 to {}", stages_here - 1));
        }
        if (action.mb.value >= mbs_here) {
          refuse(rows_, r, columns_[r][k], to_string(action),
                 fmt::format("a microbatch from 0 to {}", mbs_here - 1));
        }
      }
    }
  }

  /// A stage is on the rank that names it first.
  void place(int stages) {
    schedule_.rank_of.assign(static_cast<std::size_t>(stages), RankId(-1));
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      for (const Action& action : schedule_.order[r]) {
        RankId& rank = schedule_.rank_of[action.stage.index()];
        if (rank == RankId(-1)) rank = RankId(static_cast<std::int64_t>(r));
      }
    }
    const auto missing = std::find(schedule_.rank_of.begin(), schedule_.rank_of.end(), RankId(-1));
    if (missing == schedule_.rank_of.end()) return;
    refuse(rows_, rows_.size() - 1, rows_.back().cells.size(), "the end",
           fmt::format("the actions of stage {}", missing - schedule_.rank_of.begin()));
  }

  std::vector<Row> rows_;
  const ScheduleCsvOptions& options_;
  Schedule schedule_;
  std::vector<std::vector<std::size_t>> columns_;  // of each action
  std::vector<detail::CommCell> comms_;
  std::int32_t last_stage_ = -1;
  std::int32_t last_mb_ = -1;
};

}  // namespace

ReadSchedule read_schedule_csv(std::string_view text, const ScheduleCsvOptions& options) {
  return Reader(text, options).read();
}

std::string write_schedule_csv(const ReadSchedule& read) {
  std::string text;
  for (const auto& row : read.cells) text += fmt::format("{}\n", fmt::join(row, ","));
  return text;
}

std::string write_schedule_csv(const Schedule& schedule) {
  std::string text;
  for (std::size_t r = 0; r < schedule.order.size(); ++r) {
    const auto& order = schedule.order[r];
    const auto pairs =
        r < schedule.overlapped.size() ? schedule.overlapped[r] : std::vector<std::size_t>();
    auto pair = pairs.begin();
    for (std::size_t k = 0; k < order.size(); ++k) {
      if (k > 0) text += ',';
      if (pair != pairs.end() && *pair == k) {
        fmt::format_to(std::back_inserter(text), "({};{}{}", to_string(order[k]),
                       to_string(order[k + 1]), overlap_suffix);
        ++pair;
        ++k;
      } else {
        text += to_string(order[k]);
      }
    }
    text += '\n';
  }
  return text;
}

}  // namespace sluice
