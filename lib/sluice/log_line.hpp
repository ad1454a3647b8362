// One line of a log as a record, in the three notations a log can have.
//
//     seq=0001 mb=0 stage=0 phase=F event=enter            fields in any order, others tolerated
//     {"seq":1,"mb":0,"stage":0,"phase":"F","event":"enter"}
//     1,0,0,F,enter                                        under a header that names the columns
//
// Strict where a mistake could pass for a record: numbers are whole and fit, a field stands once, and
// mb, stage, phase and event are never missing. Used by LogReader; allocates only to describe a fault.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/log.hpp>

namespace sluice {

/// A record and where it stood.
struct LogLine {
  LogRecord record;
  std::int64_t line = 0;  ///< from 1
  int source = 0;         ///< which of the logs that are read together
  bool numbered = false;  ///< whether it had a seq
  bool whole = true;      ///< false: the log ended before its newline, so its end may be missing
};

/// Why a line is no record.
struct LineFault {
  std::size_t offset = 0;  ///< in the line
  std::string expected;
};

/// Sets the field called `key` (`mb`, `phase`, ...); false for another key, or not one of its values.
bool set_field(std::string_view key, std::string_view value, LogLine& out);

/// Reads `seq=0001 mb=0 ...`. `line` has no newline.
std::optional<LineFault> parse_text_line(std::string_view line, LogLine& out);

/// Reads one flat JSON object; values of unknown keys may be anything.
std::optional<LineFault> parse_json_line(std::string_view line, LogLine& out);

/// The columns of a CSV log.
class CsvHeader {
 public:
  /// Requires the columns mb, stage, phase and event.
  std::optional<LineFault> parse(std::string_view line);
  std::optional<LineFault> parse_row(std::string_view line, LogLine& out) const;

 private:
  std::vector<int> fields_;  // per column; log_line.cpp numbers the fields
};

}  // namespace sluice
