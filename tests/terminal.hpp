// Runs the sluice command on a terminal of its own. For the end-to-end tests.
#pragma once

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice::test {

/// What `sluice arguments` shows on a terminal; `settings` as in `NO_COLOR=1`.
inline std::string on_terminal(const std::string& settings, const std::string& arguments) {
  const std::string command = fmt::format("env {} '{}' {}", settings, SLUICE_COMMAND, arguments);
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  std::string shown;
  char block[4096];
  for (ssize_t size = 0; (size = ::read(terminal, block, sizeof block)) > 0;) {
    shown.append(block, static_cast<std::size_t>(size));
  }
  ::close(terminal);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << shown;
  return shown;
}

}  // namespace sluice::test
