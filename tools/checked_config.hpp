// CheckedConfig: a configuration from our own file, another system's settings, or both, found good.
//
// What is wrong is told in the words of the file that it stands in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sluice/log_infer.hpp>
#include <sluice/plan.hpp>

#include "config.hpp"
#include "foreign_settings.hpp"

namespace sluice::tools {

struct ConfigSources {
  std::optional<std::filesystem::path> config;
  std::optional<std::filesystem::path> deepspeed;
  std::optional<std::filesystem::path> megatron;
  std::vector<Override> overrides;  ///< over all of them

  bool any() const { return config || deepspeed || megatron || !overrides.empty(); }
};

struct CheckedConfig {
  Plan plan;
  std::int64_t replicas = 1;
  ForeignSettings settings;
  std::vector<std::filesystem::path> files;  ///< that it was read from
};

/// What of a shape the sources give.
struct GivenShape {
  KnownShape known;    ///< by number
  bool whole = false;  ///< enough for a plan
  bool order = false;  ///< the schedule, its depth or its credits
  bool more = false;   ///< anything beside stages and microbatches
};

/// Throws UsageError for what cannot be read.
GivenShape given_shape(const ConfigSources& sources);

/// Adds to `sources` what is not given and the log says. Returns it, as `stages = 4, ...`.
std::string complete_shape(ConfigSources& sources, const GivenShape& given, const Inference& seen);

/// Throws UsageError for what cannot be read, and RejectedConfig for what cannot be run.
CheckedConfig check_sources(const ConfigSources& sources);

/// What was understood, a line each; empty when there are no settings of another system.
std::string text_of(const CheckedConfig& checked);

}  // namespace sluice::tools
