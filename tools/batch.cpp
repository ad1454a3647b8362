#include "batch.hpp"

#include <string>

#include <fmt/format.h>

namespace sluice::tools {

std::vector<Finding> check_batch(std::int64_t global, std::int64_t micro, int microbatches) {
  if (microbatches < 1 || global == micro * microbatches) return {};
  Finding finding;
  finding.rule = "batch";
  finding.severity = Severity::error;
  finding.key = "global";
  finding.expected = std::to_string(micro * microbatches);
  finding.found = std::to_string(global);
  std::string fits = fmt::format("global = {}", micro * microbatches);
  if (global % micro == 0) fits += fmt::format(", or microbatches = {}", global / micro);
  if (global % microbatches == 0) fits += fmt::format(", or micro = {}", global / microbatches);
  finding.message =
      fmt::format("global = {}: expected micro x microbatches = {} x {} = {}; nearest that fit: {}",
                  global, micro, microbatches, micro * microbatches, fits);
  return {finding};
}

}  // namespace sluice::tools
