// Runs the sluice command as a user would: arguments in, standard output, standard error and exit
// code out. For the end-to-end tests.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

namespace sluice::test {

struct CommandResult {
  int code = -1;
  std::string out;
  std::string err;

  /// Standard output as JSON; fails the test when it is anything else.
  nlohmann::json json() const {
    auto json = nlohmann::json::parse(out, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << out << err;
    return json;
  }
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A folder of the test's own, gone when the test has ended.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  std::string file(std::string_view name, std::string_view text) const {
    write_text(path_ / name, text);
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

/// What a shell makes of `commands`.
inline CommandResult shell(const std::string& commands) {
  const Folder folder;
  const auto out = folder / "out";
  const auto err = folder / "err";
  const int status = std::system(
      fmt::format("({}) >'{}' 2>'{}' </dev/null", commands, out.string(), err.string()).c_str());
  CommandResult result;
  // A crash is no exit code.
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.out = read_text(out);
  result.err = read_text(err);
  return result;
}

/// `arguments` as in a shell.
inline CommandResult sluice(const std::string& arguments) {
  return shell(fmt::format("exec '{}' {}", SLUICE_COMMAND, arguments));
}

}  // namespace sluice::test
