#include <sluice/messages.hpp>

#include <cstdlib>
#include <string_view>

#include <unistd.h>

namespace sluice::detail {

void end_without_memory() noexcept {
  constexpr std::string_view last_words =
      "sluice: no memory for a message between two ranks of a running step, which can now neither "
      "go on "
      "nor end; the process ends\n";
  static_cast<void>(!::write(STDERR_FILENO, last_words.data(), last_words.size()));
  std::abort();
}

}  // namespace sluice::detail
