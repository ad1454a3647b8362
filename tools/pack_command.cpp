// sluice pack: puts a recording and everything its replay needs into one file.

#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "case_file.hpp"
#include "errors.hpp"
#include "explore_token_replay.hpp"
#include "output.hpp"
#include "recording_file.hpp"
#include "replay_report.hpp"
#include "subcommands.hpp"

namespace sluice::tools {
namespace {

struct PackOptions {
  std::filesystem::path recording;
  std::filesystem::path output;
  bool overwrite = false;
  bool json = false;
};

int run(const PackOptions& options) {
  if (is_case(options.recording)) {
    throw UsageError(options.recording.string(), "is a case file already; copy it");
  }
  check_place_of_case(options.output, options.overwrite);
  const RecordingFile file = open_recording(options.recording);
  if (!file.faults.empty()) {
    throw UsageError(options.recording.string(), fmt::format("{}", fmt::join(file.faults, "; ")));
  }
  if (explored_token(*file.recording)) {
    throw UsageError(options.recording.string(),
                     "is of an explored run, which needs no data and no checkpoint: copy the file, "
                     "or its token, and replay that");
  }
  const RecordedRun run = read_run(file.recording->header().identity, options.recording.string());
  const auto parts = parts_of(options.recording, run);

  std::uint64_t total = 0;
  std::string text;
  Json json;
  for (const CasePart& part : parts) {
    total += part.bytes.size();
    text += fmt::format("{:<34}{:>12} bytes\n", part.name, part.bytes.size());
    json["parts"][part.name] = part.bytes.size();
  }
  // Before anything is written: whoever has no room for it can still stop.
  text += fmt::format("{:<34}{:>12} bytes before compression\n", "together", total);
  if (!options.json) write_result(text, std::nullopt);
  write_case(options.output, parts, options.overwrite);
  const auto size = std::filesystem::file_size(options.output);
  json["bytes"] = total;
  json["case"] = options.output.string();
  json["case_bytes"] = size;
  write_result(options.json
                   ? to_text(json)
                   : fmt::format("{:<34}{:>12} bytes\nelsewhere: sluice replay {}\n",
                                 options.output.string(), size, options.output.filename().string()),
               std::nullopt);
  return clean;
}

}  // namespace

Subcommand pack_command(CLI::App& sluice) {
  CLI::App* app =
      sluice.add_subcommand("pack", "Put a recording and what its replay needs into one file");
  const auto options = std::make_shared<PackOptions>();
  app->add_option("RECORDING", options->recording, "what sluice train --record wrote")->required();
  app->add_option("-o", options->output, "the case file to write")->required()->type_name("FILE");
  app->add_flag("--overwrite", options->overwrite, "replace a case file that exists");
  app->add_flag("--json", options->json, "print one JSON object instead of text");
  app->footer(
      "Example: carry last night's failure to a laptop\n"
      "  sluice pack night.slrec -o night.slcase\n"
      "  sluice replay night.slcase --until step=5,mb=3,stage=1,phase=F");
  return {app, [options] { return or_refused(options->json, [&] { return run(*options); }); }};
}

}  // namespace sluice::tools
