// The subcommands: one function each, in a file of its own.
//
// A function adds its subcommand, with options and help, to the application; `run` is called when
// the user has named it, after parsing, and returns the exit code.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace sluice::tools {

struct Subcommand {
  CLI::App* app = nullptr;
  std::function<int()> run;
};

Subcommand plan_command(CLI::App& sluice);
Subcommand check_command(CLI::App& sluice);
Subcommand train_command(CLI::App& sluice);
Subcommand replay_command(CLI::App& sluice);
Subcommand show_command(CLI::App& sluice);
Subcommand diff_command(CLI::App& sluice);
Subcommand pack_command(CLI::App& sluice);
Subcommand tune_command(CLI::App& sluice);
Subcommand explore_command(CLI::App& sluice);

}  // namespace sluice::tools
