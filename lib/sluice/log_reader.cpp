#include <sluice/log_reader.hpp>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include <sluice/written_line.hpp>

namespace sluice {
namespace {

// No record is that long; without a limit one file without newlines would fill the memory.
constexpr std::size_t most_bytes = std::size_t{16} << 20;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::string_view any_notation =
    "a log: lines like seq=0001 mb=0 stage=0 phase=F event=enter, JSON lines with these keys, or "
    "CSV "
    "under a header with these names; for other texts give a pattern";

std::string printable(std::string_view text) {
  if (text.empty()) return "the end of the line";
  constexpr std::size_t most = 40;
  std::string result = "'";
  for (const char c : text.substr(0, most)) {
    if (static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x7F) {
      result += c;
    } else {
      fmt::format_to(std::back_inserter(result), "\\x{:02X}", static_cast<unsigned char>(c));
    }
  }
  return result + (text.size() > most ? "...'" : "'");
}

}  // namespace

LogReader::LogReader(int source, ForeignLine foreign)
    : source_(source), notation_(Notation::foreign), foreign_(std::move(foreign)) {}

void LogReader::feed(std::string_view bytes, std::vector<LogLine>& out) {
  while (!problem_ && !bytes.empty()) {
    if (notation_ == Notation::text && pending_.empty()) {
      read_written_lines(bytes, out);
      if (bytes.empty()) return;
    }
    const void* found = std::memchr(bytes.data(), '\n', bytes.size());
    const auto length =
        found == nullptr ? bytes.size()
                         : static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
    if (pending_.size() + length > most_bytes) {
      ++line_;
      refuse({}, {0, fmt::format("a line of at most {} bytes", most_bytes)});
      return;
    }
    if (found == nullptr) {
      pending_.append(bytes);
      return;
    }
    if (pending_.empty()) {
      read_line(bytes.substr(0, length), true, out);
    } else {
      pending_.append(bytes.substr(0, length));
      read_line(pending_, true, out);
      pending_.clear();
    }
    bytes.remove_prefix(length + 1);
  }
}

/// Takes the lines off the front of `bytes` that need no second look.
void LogReader::read_written_lines(std::string_view& bytes, std::vector<LogLine>& out) {
  while (true) {
    LogLine& read = out.emplace_back();
    const std::size_t length = read_written_line(bytes, read);
    if (length == 0) break;
    read.line = ++line_;
    read.source = source_;
    bytes.remove_prefix(length);
  }
  out.pop_back();
}

void LogReader::finish(std::vector<LogLine>& out) {
  if (problem_ || pending_.empty()) return;
  const std::string last = std::exchange(pending_, {});
  read_line(last, false, out);
}

void LogReader::read_line(std::string_view line, bool whole, std::vector<LogLine>& out) {
  ++line_;
  if (line_ == 1 && line.starts_with(byte_order_mark)) line.remove_prefix(byte_order_mark.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.find_first_not_of(" \t") == std::string_view::npos) return;
  const bool header = notation_ == Notation::unknown;
  if (header) {
    if (auto fault = recognise(line)) {
      // A log that is cut in its very first line has not said enough to be refused.
      if (whole || !std::all_of(line.begin(), line.end(), [](char c) { return c >= 0x20; })) {
        return refuse(line, *fault);
      }
      cut_short_ = true;
      return;
    }
    if (notation_ == Notation::csv) return;
  }
  LogLine& read = out.emplace_back();
  read.line = line_;
  read.source = source_;
  read.whole = whole;
  if (notation_ == Notation::foreign) {
    if (!foreign_(line, read)) out.pop_back();
    return;
  }
  if (auto fault = parse(line, read)) {
    out.pop_back();
    if (whole) return refuse(line, *fault);
    cut_short_ = true;
  }
}

std::optional<LineFault> LogReader::parse(std::string_view line, LogLine& out) {
  switch (notation_) {
    case Notation::json: return parse_json_line(line, out);
    case Notation::csv: return header_.parse_row(line, out);
    default: return parse_text_line(line, out);
  }
}

std::optional<LineFault> LogReader::recognise(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t");
  const std::size_t equals = line.find('=');
  if (line[first] == '{') {
    notation_ = Notation::json;
  } else if (equals != std::string_view::npos) {
    notation_ = Notation::text;
  } else if (line.find(',') != std::string_view::npos &&
             line.find("stage") != std::string_view::npos) {
    notation_ = Notation::csv;
    return header_.parse(line);
  } else {
    return LineFault{first, std::string(any_notation)};
  }
  return std::nullopt;
}

void LogReader::refuse(std::string_view line, const LineFault& fault) {
  const std::size_t offset = std::min(fault.offset, line.size());
  problem_ = LogProblem{line_, offset + 1, fault.expected, printable(line.substr(offset))};
}

}  // namespace sluice
