#include <sluice/written_line.hpp>

#include <cstdint>
#include <cstring>

namespace sluice {
namespace {

/// Reads a line that has the fields in the order in which we write them, and no long numbers: most
/// lines, at a fraction of the cost. What it reads from must go on for `room` bytes, so that it need not
/// look for the end.
class AsWritten {
 public:
  static constexpr std::size_t room = 128;

  explicit AsWritten(const char* begin) : begin_(begin), p_(begin) {}

  /// Bytes of the line, its newline included; 0, and `out` half filled, for any other line.
  std::size_t read(LogLine& out) {
    std::uint64_t seq = 0, mb = 0, stage = 0, step = 0, rank = 0;
    if (!take("seq=") || !take<18>(seq)) return 0;
    if (!take(" mb=") || !take(mb)) return 0;
    if (!take(" stage=") || !take(stage)) return 0;
    if (!take(" phase=")) return 0;
    const auto phase = phase_of(*p_++);
    if (!phase || !take(" event=")) return 0;
    const bool exits = is("exit");
    if (!exits && !is("enter")) return 0;
    p_ += exits ? 4 : 5;
    LogRecord& record = out.record;
    record.seq = static_cast<std::int64_t>(seq);
    record.action.mb = MicrobatchId(static_cast<std::int64_t>(mb));
    record.action.stage = StageId(static_cast<std::int64_t>(stage));
    record.action.phase = *phase;
    record.event = exits ? LogRecord::Event::exit : LogRecord::Event::enter;
    if (*p_ != '\n' && take(" step=")) {
      if (!take(step)) return 0;
      record.step = static_cast<std::int64_t>(step);
    }
    if (*p_ != '\n' && take(" rank=")) {
      if (!take(rank)) return 0;
      record.rank = RankId(static_cast<std::int64_t>(rank));
    }
    out.numbered = true;
    return *p_ == '\n' ? static_cast<std::size_t>(p_ + 1 - begin_) : 0;
  }

 private:
  /// Four to eight letters: as two numbers of four bytes, which may overlap.
  template <std::size_t N>
  bool is(const char (&text)[N]) const {
    static_assert(N > 4 && N <= 9);
    return std::memcmp(p_, text, 4) == 0 && std::memcmp(p_ + N - 5, text + N - 5, 4) == 0;
  }
  template <std::size_t N>
  bool take(const char (&text)[N]) {
    if (!is(text)) return false;
    p_ += N - 1;
    return true;
  }
  /// One to `Most` digits; nine fit into every field.
  template <int Most = 9>
  [[gnu::always_inline]] bool take(std::uint64_t& number) {
    const char* const begin = p_;
    for (unsigned digit = 0; (digit = static_cast<unsigned>(*p_ - '0')) <= 9; ++p_) {
      if (p_ - begin == Most) return false;
      number = 10 * number + digit;
    }
    return p_ != begin;
  }

  const char* begin_;
  const char* p_;
};

}  // namespace

std::size_t read_written_line(std::string_view bytes, LogLine& out) {
  return bytes.size() < AsWritten::room ? 0 : AsWritten(&bytes.front()).read(out);
}

}  // namespace sluice
