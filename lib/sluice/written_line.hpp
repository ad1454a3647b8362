// The fast way through a text log: lines that are just as we write them.
//
// LogReader tries it first and falls back to parse_text_line(), which says what is wrong with a line, or
// that nothing is. A pure function; any executor.
#pragma once

#include <cstddef>
#include <string_view>

#include <sluice/log_line.hpp>

namespace sluice {

/// Reads the first line of `bytes` if its fields stand in the order in which we write them, without a
/// clock. Returns its length with the newline; 0, and `out` half filled, for any other, which may be
/// right as well.
std::size_t read_written_line(std::string_view bytes, LogLine& out);

}  // namespace sluice
