#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "errors.hpp"

namespace sluice::tools {

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) say("\r\033[K");
}

bool Progress::due() const {
  return terminal_ && std::chrono::steady_clock::now() - last_ > std::chrono::milliseconds(100);
}

void Progress::show(std::string_view line) {
  last_ = std::chrono::steady_clock::now();
  shown_ = true;
  say(fmt::format("\r\033[K{}", line));
}

}  // namespace sluice::tools
