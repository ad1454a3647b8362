// Progress: one line on standard error that overwrites itself, on a terminal only.
#pragma once

#include <chrono>
#include <string_view>

namespace sluice::tools {

class Progress {
 public:
  Progress();
  /// Takes the line away.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// True when there is a terminal and the line is old enough to be replaced.
  bool due() const;
  void show(std::string_view line);

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace sluice::tools
