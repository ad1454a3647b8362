// A log of any length on standard output, made while it is written: what its reader needs is then
// the reader's own.
//
//     log_stream 10000000000 | sluice check -S 8 -M 1000 -
//
// writes steps of eight stages and a thousand microbatches until there are that many bytes or more.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <sluice/log.hpp>
#include <sluice/plan.hpp>

namespace {

/// The lines of one step, without their first and last numbers.
std::vector<std::string> lines_of_a_step() {
  sluice::PlanConfig config;
  config.stages = 8;
  config.microbatches = 1000;
  std::vector<std::string> lines;
  for (const sluice::LogRecord& record : sluice::expected_log(derive_plan(config).timeline)) {
    const std::string line = to_line(record);
    lines.push_back(line.substr(line.find(' ')) + " step=");
  }
  return lines;
}

bool write(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t wanted = 0;
  if (argc == 2) std::from_chars(argv[1], argv[1] + std::strlen(argv[1]), wanted);
  if (wanted <= 0) {
    std::fputs("usage: log_stream BYTES\n", stderr);
    return 2;
  }
  const std::vector<std::string> lines = lines_of_a_step();
  std::string text;
  std::int64_t seq = 0;
  std::int64_t written = 0;
  for (std::int64_t step = 0; written < wanted; ++step) {
    text.clear();
    for (const std::string& line : lines) {
      text += "seq=";
      const fmt::format_int number(++seq);
      if (number.size() < 4) text.append(4 - number.size(), '0');
      text.append(number.data(), number.size());
      text += line;
      const fmt::format_int of_step(step);
      text.append(of_step.data(), of_step.size());
      text += '\n';
    }
    if (!write(text)) return 1;
    written += static_cast<std::int64_t>(text.size());
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}
