// Document: a TOML file read strictly, with values laid over it from the command line.
//
// Used by config.cpp, and by sluice check to see what is given. A reader asks a section for the keys
// it knows; whatever was not asked for is an unknown key. Errors are collected, each with file, line,
// column, key and value, and thrown together, so that one run shows them all.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

#include <sluice/time.hpp>

#include "config.hpp"

namespace sluice::tools {

class Section;

class Document {
 public:
  /// Throws UsageError where `text` is not TOML. `name` is the file's, or empty when there is none.
  Document(std::string_view text, std::string name);

  /// Throws UsageError when the key is not of the form `section.key`.
  void set(const Override& given);

  /// The table of that name; an empty one when the document has none.
  Section section(std::string_view name);

  /// Reports sections that were not asked for, then throws UsageError if anything was reported.
  void finish();

  /// Where the value of `section.key` comes from: `file:line:column`, or the option that gave it.
  /// For a key that is not there, the document itself.
  std::string where(std::string_view key) const;

  /// Whether the value of `section.key`, which is there, was not given on the command line.
  bool is_in_file(std::string_view key) const { return !given_.contains(key); }

  void report(std::string_view where, std::string_view what);
  /// Reports the value of a key as `section.key = value: expected ...`.
  void report_value(std::string_view key, const toml::node& value, std::string_view expected);

  /// The places of all keys in all sections, by key alone.
  std::map<std::string, std::string, std::less<>> places() const;

 private:
  friend class Section;

  std::string name_;
  toml::table root_;
  std::map<std::string, Override, std::less<>> given_;  // on the command line, by key
  std::vector<std::string> asked_;
  std::vector<std::string> errors_;
};

/// One table of a Document, which must outlive it.
class Section {
 public:
  Section(Document& document, std::string name, const toml::table* table)
      : document_(document), name_(std::move(name)), table_(table) {}

  bool has(std::string_view key) const { return table_ != nullptr && table_->contains(key); }

  // Each gives nothing when the key is absent, and also, after a report, when its value is wrong.

  std::optional<std::int64_t> whole(std::string_view key, std::int64_t least,
                                    std::int64_t most = std::numeric_limits<std::int64_t>::max());
  /// Any whole number that fits; for keys whose range the planner checks.
  std::optional<int> whole(std::string_view key);
  std::optional<double> number(std::string_view key);
  std::optional<bool> flag(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  /// A list of whole numbers.
  std::optional<std::vector<std::int64_t>> wholes(std::string_view key, std::int64_t least,
                                                  std::int64_t most);
  /// A whole number, or a list of them.
  std::optional<std::vector<std::int64_t>> whole_or_wholes(std::string_view key, std::int64_t least,
                                                           std::int64_t most);
  std::optional<Time> time(std::string_view key);
  /// A number, or a list of numbers.
  std::optional<std::vector<Time>> times(std::string_view key);

  /// Reports a key that must be there; `option` would give it as well.
  void missing(std::string_view key, std::string_view option, std::string_view advice);
  /// Reports that the value that is there is not what was expected.
  void reject(std::string_view key, std::string_view expected);

  /// Reports every key that was not asked for.
  void finish();

 private:
  const toml::node* find(std::string_view key);
  std::string full(std::string_view key) const;

  Document& document_;
  std::string name_;
  const toml::table* table_;
  std::vector<std::string> asked_;
};

}  // namespace sluice::tools
