// A Chrome or Perfetto trace in JSON, as PyTorch's profiler writes it, as a log.
//
// What an event means is told by two mappings: `name=F{mb}|B{mb}` what the names of actions look like
// (other events are passed over), and `stage=tid` which field of an event has its stage (`pid`,
// `tid`, or `args.stage`). The result has clocks and no seq, so it is ordered by cause.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sluice/log_pattern.hpp>

namespace sluice::tools {

class TraceMap {
 public:
  /// Throws UsageError for a mapping that is not one of the two, or missing.
  explicit TraceMap(const std::vector<std::string>& mappings);

  const std::vector<LogPattern>& names() const { return names_; }
  const std::string& stage() const { return stage_; }

 private:
  std::vector<LogPattern> names_;
  std::string stage_;
};

/// The lines of the text log. Throws UsageError when `json` is no trace, or has no such event.
std::string log_of_trace(std::string_view json, const std::string& name, const TraceMap& map);

}  // namespace sluice::tools
