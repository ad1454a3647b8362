#include "errors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <numeric>

#include <fmt/format.h>

namespace sluice::tools {
namespace {

/// Insertions, deletions and replacements between two words.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

UsageError::UsageError(std::string_view where, std::string_view what)
    : lines_{error_line(where, what)} {}

std::string error_line(std::string_view where, std::string_view what) {
  return fmt::format("{}: error: {}", where, what);
}

void say(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

std::string did_you_mean(std::string_view text, std::span<const std::string> candidates) {
  const std::string* nearest = nullptr;
  // A third of the letters may be wrong; beyond that a guess is noise.
  std::size_t least = std::max<std::size_t>(2, text.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t far = distance(text, candidate);
    if (far >= least) continue;
    least = far;
    nearest = &candidate;
  }
  return nearest == nullptr ? std::string() : fmt::format("; did you mean '{}'?", *nearest);
}

}  // namespace sluice::tools
