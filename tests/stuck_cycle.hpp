// Who waits for whom, as the text of a stuck step has it.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace sluice::test {

/// The ranks of the cycle, the smallest first, out of the text of a stuck step: `  cycle: rank 1 -> rank 2 -> rank 1`.
inline std::vector<int> cycle_in(const std::string& text) {
  std::vector<int> ranks;
  const auto begin = text.find("  cycle:");
  if (begin == std::string::npos) return ranks;
  const std::string line = text.substr(begin, text.find('\n', begin) - begin);
  for (auto at = line.find("rank "); at != std::string::npos; at = line.find("rank ", at + 1)) {
    ranks.push_back(std::stoi(line.substr(at + 5)));
  }
  ranks.pop_back();  // the first once more
  std::rotate(ranks.begin(), std::min_element(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace sluice::test
