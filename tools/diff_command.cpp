// sluice diff: where two recordings part, first in what was done, and first in what came out.

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/replay/diff.hpp>

#include "errors.hpp"
#include "output.hpp"
#include "recording_file.hpp"
#include "replay_report.hpp"
#include "run_identity.hpp"
#include "subcommands.hpp"

namespace sluice::tools {
namespace {

struct DiffOptions {
  std::filesystem::path recorded;
  std::filesystem::path found;
  bool json = false;
};

std::string text_of(const std::optional<replay::Divergence>& divergence, std::string_view what,
                    const DiffOptions& options) {
  if (!divergence) return fmt::format("{}: no difference\n", what);
  std::string text =
      fmt::format("{}: {}\n{}", what, divergence->message, circumstances_of(*divergence));
  const auto first = std::max<std::int64_t>(1, divergence->seq - 10);
  for (const auto& file : {options.recorded, options.found}) {
    text += fmt::format("  to look closer: sluice show {} --seq {}..{}\n", file.string(), first,
                        divergence->seq + 5);
  }
  return text;
}

std::string line_of(const replay::IdentityDifference& difference) {
  return fmt::format("{}: {} in the first, {} in the second", difference.key, difference.recorded,
                     difference.found);
}

int run(const DiffOptions& options) {
  const RecordingFile recorded = open_recording(options.recorded);
  const RecordingFile found = open_recording(options.found);
  const auto differences =
      compare_runs(recorded.recording->header().identity, found.recording->header().identity);
  replay::RecordingDiff result;
  try {
    result = replay::diff(*recorded.recording, *found.recording);
  } catch (const std::invalid_argument& error) {
    std::vector<std::string> lines{error_line("sluice diff", error.what())};
    for (const auto& difference : differences) lines.push_back("  " + line_of(difference));
    throw UsageError(std::move(lines));
  }
  const auto& first = result.actions ? result.actions : result.tensors;
  if (options.json) {
    Json json;
    json["verdict"] = to_string(result.verdict);
    json["actions"] = result.of_actions;
    json["events"] = result.events;
    json["hashes"] = result.hashes;
    if (first) json["divergence"] = json_of(*first);
    if (result.actions) json["first_in_actions"] = json_of(*result.actions);
    if (result.tensors) json["first_in_tensors"] = json_of(*result.tensors);
    if (!differences.empty()) json["differences"] = json_of(differences);
    write_result(to_text(json), std::nullopt);
    return exit_code_of(result.verdict);
  }
  std::string text =
      fmt::format("{}: {} actions, {} events and {} hashes are the same in both\n",
                  to_string(result.verdict), result.of_actions, result.events, result.hashes);
  if (result.hashes == 0 && !result.tensors) {
    text += "values not compared: no output has a hash in both\n";
  }
  if (first) {
    text +=
        text_of(result.actions, "actions", options) + text_of(result.tensors, "tensors", options);
  } else if (result.verdict == replay::Verdict::recording_ends) {
    text += "one recording ends here, or its run did not end in good order\n";
  }
  for (const auto& difference : differences) text += line_of(difference) + '\n';
  write_result(text, std::nullopt);
  return exit_code_of(result.verdict);
}

}  // namespace

Subcommand diff_command(CLI::App& sluice) {
  CLI::App* app =
      sluice.add_subcommand("diff", "Where two recordings part, in actions and tensors");
  const auto options = std::make_shared<DiffOptions>();
  app->add_option("RECORDING", options->recorded, "the one whose positions are named")->required();
  app->add_option("OTHER", options->found, "the one it is compared with")->required();
  app->add_flag("--json", options->json, "print one JSON object instead of text");
  app->footer(
      "Any two recordings of one shape, of sluice train or of your own program.\n"
      "Exit code: 0 same, or one ends early; 1 they part; 2 unreadable, or other shapes.\n"
      "Example: did the new build change a number?\n"
      "  sluice diff before.slrec after.slrec");
  return {app, [options] { return or_refused(options->json, [&] { return run(*options); }); }};
}

}  // namespace sluice::tools
