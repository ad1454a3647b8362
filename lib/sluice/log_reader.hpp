// LogReader: the bytes of one log, as they come, into records with their line numbers.
//
// Whoever has the bytes calls it: a whole mapped file at once, or a stream piece by piece; it keeps
// no more than the line that is not finished yet. The first line tells the notation: text, JSON lines
// or CSV (log_line.hpp). A byte-order mark, CRLF and empty lines are fine; the first line that is no
// record ends the reading, with its number. A value type; one caller at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/log_line.hpp>

namespace sluice {

/// The first thing in a log that is no record.
struct LogProblem {
  std::int64_t line = 0;
  std::size_t column = 0;  ///< from 1, in bytes
  std::string expected;
  std::string found;  ///< what stands there, shortened, unprintable bytes escaped
};

class LogReader {
 public:
  /// Reads one line that is not in one of our notations. Nothing: a line of no interest.
  using ForeignLine = std::function<bool(std::string_view line, LogLine& out)>;

  /// `source` is copied into every record.
  explicit LogReader(int source = 0) : source_(source) {}
  /// For a log in words of its own; lines of which `foreign` makes no record are passed over.
  LogReader(int source, ForeignLine foreign);

  /// Appends the records of all lines that end in `bytes`. After a problem it does nothing more.
  void feed(std::string_view bytes, std::vector<LogLine>& out);
  /// The log is over. A last line without its newline counts if it is a record.
  void finish(std::vector<LogLine>& out);

  const std::optional<LogProblem>& problem() const { return problem_; }
  /// The log ended in the middle of a line that is no record so far.
  bool cut_short() const { return cut_short_; }

  std::int64_t lines() const { return line_; }

 private:
  enum class Notation : std::uint8_t { unknown, text, json, csv, foreign };

  void read_written_lines(std::string_view& bytes, std::vector<LogLine>& out);
  void read_line(std::string_view line, bool whole, std::vector<LogLine>& out);
  std::optional<LineFault> parse(std::string_view line, LogLine& out);
  std::optional<LineFault> recognise(std::string_view line);
  void refuse(std::string_view line, const LineFault& fault);

  int source_;
  Notation notation_ = Notation::unknown;
  CsvHeader header_;
  ForeignLine foreign_;
  std::string pending_;  // the line that has not ended yet
  std::int64_t line_ = 0;
  std::optional<LogProblem> problem_;
  bool cut_short_ = false;
};

}  // namespace sluice
