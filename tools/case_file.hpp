// The case file: one file that carries a run to another machine, with all that its replay needs.
//
// A tar archive compressed with zstd, which any tar opens: `case.json` first, which says what is inside,
// how large, with which hash, from which build and from which step it starts; then `config.toml`,
// `run.slrec`, and the data the run read. Read strictly: parts that are not listed, missing, or not as
// they were written are refused. Nothing is unpacked but the parts listed here, under these names.
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

/// Throws UsageError when `file` exists or cannot be written; then nothing is left of it.
void write_case(const std::filesystem::path& file, const std::vector<CasePart>& parts);

bool is_case(const std::filesystem::path& file);

/// A case file, unpacked into a folder of its own that goes with the object.
class UnpackedCase {
 public:
  /// Throws UsageError.
  explicit UnpackedCase(const std::filesystem::path& file);
  ~UnpackedCase();
  UnpackedCase(const UnpackedCase&) = delete;
  UnpackedCase& operator=(const UnpackedCase&) = delete;

  std::filesystem::path recording() const { return folder_ / "run.slrec"; }
  std::filesystem::path data() const { return folder_ / "data"; }

 private:
  std::filesystem::path folder_;
};

}  // namespace sluice::tools
