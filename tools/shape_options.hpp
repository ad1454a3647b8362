// The SHAPE options: -S, -M, -W and the others that stand for a key of the configuration, and --set, which
// gives any key.
//
// Shared by the subcommands that plan. Each option given becomes an Override, so that it is read and
// checked as the same line in a file would be.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "config.hpp"

namespace sluice::tools {

class ShapeOptions {
 public:
  /// Adds the options to `command`; this object must outlive its parsing.
  explicit ShapeOptions(CLI::App& command);

  /// With the command's own before them. Throws UsageError for a `--set` that is no KEY=VALUE, and when
  /// one key is given twice, by whatever options.
  std::vector<Override> overrides(std::vector<Override> overrides = {}) const;
  /// The options that were given, and their values, to be given again.
  std::vector<std::pair<std::string, std::string>> given() const;

 private:
  std::map<std::string, std::optional<std::string>> values_;  // by option
  std::vector<std::string> sets_;
  bool legacy_ = false;
};

}  // namespace sluice::tools
