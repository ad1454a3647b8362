// OutputFile: a file that a command writes, for itself alone.
//
// An old file makes way only if it is what the new one will be, and nobody else is writing it: two runs
// never mix their lines, and a name that was typed wrong costs nothing. Pipes and devices are written as
// they are. One caller at a time; recordings have files of their own (replay/).
#pragma once

#include <filesystem>
#include <string_view>

namespace sluice::tools {

class OutputFile {
 public:
  /// Whether an old file, by its first bytes, is of the kind that is written.
  using IsOfKind = bool (*)(std::string_view head);

  /// `kind` as in `no log`. Throws UsageError when it may not be written; an old file is as it was until
  /// the first `write`.
  OutputFile(std::filesystem::path path, std::string_view kind, IsOfKind is_of_kind);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  /// All of `text`, or none of it: then UsageError is thrown. The first empties an old file.
  void write(std::string_view text);

 private:
  [[noreturn]] void fail(int error) const;
  void take(std::string_view kind, IsOfKind is_of_kind);

  std::filesystem::path path_;
  int file_ = -1;
  bool regular_ = false;
  bool emptied_ = false;
};

}  // namespace sluice::tools
