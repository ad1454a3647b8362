// What a replay must have in common with the run it repeats, and the text that holds it in a recording.
//
// The recording's header carries one JSON object: `config`, the whole configuration as TOML, and
// `identity`, named values. A replay makes its own identity of the same configuration and compares.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sluice/kernels/data_set.hpp>
#include <sluice/replay/identity.hpp>

#include "config.hpp"

namespace sluice::tools {

/// build (a hash of this program), compiler, library and isa (of the kernels), threads (of a stage's
/// kernels), data (a hash of the training samples).
replay::Identity identity_of(const Config& config, const kernels::DataSet& data);

/// For RecorderOptions::identity.
std::string describe_run(const Config& config, const replay::Identity& identity);

/// What describe_run wrote.
struct RecordedRun {
  Config config;
  replay::Identity identity;
};

/// Whether `text` is what describe_run writes.
bool describes_run(std::string_view text);

/// The named values of any recording's header: of `identity`, or of its top level; nested ones as JSON,
/// and nothing when it is no JSON object.
replay::Identity identity_in(std::string_view text);

/// What two headers of sluice train say otherwise: of the identities, and each key of the configurations,
/// like `pipeline.drain_depth`. Not [record]: how a run was recorded is no part of it. Of recordings of
/// other programs, the identities alone.
std::vector<replay::IdentityDifference> compare_runs(std::string_view recorded,
                                                     std::string_view found);

/// Throws UsageError when `text`, of the recording `file`, is not what describe_run writes.
RecordedRun read_run(std::string_view text, const std::string& file);

}  // namespace sluice::tools
