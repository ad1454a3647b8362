// LogPattern: lines of any program as records, by an example of what they look like.
//
//     ... step {step} ... stage={stage} ... fwd mb {mb} start
//
// `...` stands for any text, `{mb}`, `{stage}`, `{seq}`, `{step}`, `{rank}`, `{t}` for a number,
// `{phase}` and `{event}` for a word; the rest stands for itself. What the pattern does not ask the line
// for, its own words tell: fwd, forward, bwd, backward; start, begin, enter, end, done, exit. A
// pattern is a whole line. A value type; any executor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/log_line.hpp>

namespace sluice {

class LogPattern {
 public:
  /// What a record needs and the text does not have, because it comes from elsewhere.
  enum class Outside : std::uint8_t { nothing, stage_and_event };

  /// Throws std::invalid_argument, saying what is missing or not known, and what to write.
  explicit LogPattern(std::string_view text, Outside outside = Outside::nothing);

  /// Makes a record of the line; false, and `out` unspecified, when it does not look like that.
  bool match(std::string_view line, LogLine& out) const;

 private:
  struct Part {
    std::string literal;  // what stands for itself; empty for a field
    std::string field;
  };
  /// Parts without `...` between them.
  using Segment = std::vector<Part>;

  std::optional<std::size_t> match_at(const Segment& segment, std::string_view line,
                                      std::size_t from, LogLine& out) const;
  void add_field(std::string_view name);
  void take_words(std::string_view literal);
  void require_all(std::string_view text, Outside outside) const;

  std::vector<Segment> segments_;  // `...` stands between each two
  std::optional<Phase> phase_;     // by the pattern's own words
  std::optional<LogRecord::Event> event_;
  std::vector<std::string> fields_;
};

/// A phase by any of its usual names: `F`, `fwd`, `forward`, `B`, `bwd`, `backward`, `I`, `W`.
std::optional<Phase> phase_by_word(std::string_view word);

}  // namespace sluice
