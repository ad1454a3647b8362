// The case file: one file that carries a run to another machine, with all that its replay needs.
//
// A tar archive compressed with zstd, which any tar opens: `case.json` first, which says what is inside,
// how large, with which hash, from which build and from which step it starts; then `config.toml`,
// `run.slrec`, and the data the run read. Read strictly: parts that are not listed, missing, or not as
// they were written are refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <sluice/replay/identity.hpp>
#include <sluice/replay/recording.hpp>

#include "run_identity.hpp"

namespace sluice::tools {

/// What goes into a case file under a name, as bytes that are in memory already.
struct CasePart {
  std::string name;
  std::string bytes;
};

/// The parts of a case, `case.json` first. `recording` is the file, `run` what its header says. Throws
/// UsageError when the data are no longer those that the run read.
std::vector<CasePart> parts_of(const std::filesystem::path& recording, const RecordedRun& run);

/// Throws UsageError when `file` exists, unless it is a case file that may be overwritten.
void check_place_of_case(const std::filesystem::path& file, bool overwrite);

/// Whole or not at all: written as `file`.part, which is renamed in the end. Throws UsageError when `file`
/// is in the way or cannot be written; then an old one is as it was.
void write_case(const std::filesystem::path& file, const std::vector<CasePart>& parts,
                bool overwrite);

bool is_case(const std::filesystem::path& file);

/// The parts that a replay reads, as they were packed. They stay in memory: nothing is unpacked to a disk, so
/// nothing is left there however the command ends.
struct Case {
  std::string recording;
  std::string images;
  std::string labels;
};

/// Throws UsageError.
Case read_case(const std::filesystem::path& file);

}  // namespace sluice::tools
