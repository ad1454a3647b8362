// The sluice command: finds the subcommand, runs it, and turns every way to fail into its exit code.

#include <csignal>
#include <exception>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <sluice/replay/recording_error.hpp>

#include "errors.hpp"
#include "output.hpp"
#include "subcommands.hpp"

namespace sluice::tools {
namespace {

int complain(std::span<const std::string> lines) {
  for (const std::string& line : lines) say(line + '\n');
  return unusable;
}

/// The names that could have been meant where `app` found something unknown.
std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands({})) names.push_back(each->get_name());
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// CLI11 takes what it does not know for an extra argument; says which, and what was near.
int complain_about_usage(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* subcommand = app.get_subcommands().empty() ? &app : app.get_subcommands().front();
  const std::string name =
      subcommand == &app ? app.get_name() : fmt::format("sluice {}", subcommand->get_name());
  std::string what = error.what();
  const auto extras = subcommand->remaining();
  if (!extras.empty()) {
    const std::string& extra = extras.front();
    const char* kind = extra.starts_with('-') ? "option"
                       : subcommand == &app   ? "subcommand"
                                              : "argument";
    what =
        fmt::format("unknown {} '{}'{}", kind, extra, did_you_mean(extra, names_of(*subcommand)));
  }
  const std::vector<std::string> lines{
      error_line(name, fmt::format("{}; see {} --help", what, name))};
  return complain(lines);
}

/// Started with a standard stream closed, the next file opened would take its place, and what is printed
/// would land in it. What stands there instead cannot be written to: no result gets lost in silence.
void open_standard_streams() {
  int opened = 0;
  while (opened >= 0 && opened <= STDERR_FILENO) opened = ::open("/dev/null", O_RDONLY);
  if (opened > STDERR_FILENO) ::close(opened);
}

int run(int argc, char** argv) {
  CLI::App app{"Pipeline-parallel training with recorded, replayable runs", "sluice"};
  app.require_subcommand(0, 1);
  app.footer(
      "Exit codes: 0 clean; 1 a finding, or a run that failed, diverged or got stuck;\n"
      "2 usage, unreadable or rejected input.\n\n"
      "sluice SUBCOMMAND --help shows an example.");
  const std::vector<Subcommand> subcommands{
      plan_command(app),   check_command(app), train_command(app),
      replay_command(app), show_command(app),  diff_command(app),
      pack_command(app),   tune_command(app),  explore_command(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    std::ostringstream text;
    const int code = app.exit(help, text);
    write_result(text.str(), std::nullopt);
    return code;
  } catch (const CLI::ParseError& error) {
    return complain_about_usage(app, error);
  }
  for (const Subcommand& subcommand : subcommands) {
    if (subcommand.app->parsed()) return subcommand.run();
  }
  say(app.help());
  return unusable;
}

}  // namespace
}  // namespace sluice::tools

int main(int argc, char** argv) {
  using namespace sluice::tools;
  open_standard_streams();
  // Beyond a limit on file sizes a write then fails, and the file at hand is given up as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const UsageError& error) {
    return complain(error.lines());
  } catch (const sluice::replay::RecordingError& error) {
    const auto& facts = error.facts();
    const std::string offset =
        facts.offset ? fmt::format(" at offset {}", *facts.offset) : std::string();
    const std::vector<std::string> lines{
        error_line(facts.file, fmt::format("{}{}: expected {}, found {}; {}", facts.what, offset,
                                           facts.expected, facts.found, facts.advice))};
    return complain(lines);
  } catch (const std::bad_alloc&) {
    const std::vector<std::string> lines{
        error_line("sluice", "not enough memory; make the model, the batch or the plan smaller")};
    return complain(lines);
  } catch (const std::exception& error) {
    const std::vector<std::string> lines{error_line("sluice", error.what())};
    return complain(lines);
  }
}
