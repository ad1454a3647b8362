#include "document.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "errors.hpp"

namespace sluice::tools {
namespace {

std::string place(std::string_view name, const toml::source_region& region) {
  return fmt::format("{}:{}:{}", name, region.begin.line, region.begin.column);
}

/// A value as TOML, short enough for a message.
std::string shown(const toml::node& value) {
  constexpr std::size_t longest = 60;
  std::ostringstream text;
  value.visit([&text](const auto& node) {
    using Node = std::decay_t<decltype(node)>;
    if constexpr (std::is_same_v<Node, toml::table>) {
      text << toml::toml_formatter(node, toml::format_flags::none);
    } else {
      text << node;
    }
  });
  std::string result = text.str();
  std::replace(result.begin(), result.end(), '\n', ' ');
  if (result.size() > longest) result.replace(longest - 3, std::string::npos, "...");
  return result;
}

bool is_number(const toml::node& node) { return node.is_integer() || node.is_floating_point(); }

/// Of a number. Not value<double>(), which has nothing for a whole one that no double is equal to.
double number_of(const toml::node& node) {
  if (const auto* whole = node.as_integer()) return static_cast<double>(whole->get());
  return node.as_floating_point()->get();
}

std::optional<Time> time_of(const toml::node& node) {
  if (!is_number(node)) return std::nullopt;
  return Time::checked_units(number_of(node));
}

}  // namespace

Document::Document(std::string_view text, std::string name) : name_(std::move(name)) {
  try {
    root_ = toml::parse(text, name_);
  } catch (const toml::parse_error& error) {
    throw UsageError(place(name_, error.source()), error.description());
  }
}

void Document::set(const Override& given) {
  const auto dot = given.key.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == given.key.size()) {
    throw UsageError(given.source, "expected section.key=value, like --set train.epochs=1");
  }
  const std::string_view section = std::string_view(given.key).substr(0, dot);
  const std::string_view key = std::string_view(given.key).substr(dot + 1);
  auto* table = root_.insert(section, toml::table()).first->second.as_table();
  if (table == nullptr) {
    throw UsageError(given.source, fmt::format("'{}' is not a section in {}", section, name_));
  }
  try {
    auto parsed = toml::parse("value = " + given.value);
    // More than one key means that the text went on after the value.
    if (parsed.size() == 1) {
      parsed.begin()->second.visit(
          [&](auto& node) { table->insert_or_assign(key, std::move(node)); });
    } else {
      table->insert_or_assign(key, given.value);
    }
  } catch (const toml::parse_error&) {
    table->insert_or_assign(key, given.value);
  }
  given_.insert_or_assign(given.key, given);
}

Section Document::section(std::string_view name) {
  asked_.emplace_back(name);
  const toml::node* node = root_.get(name);
  if (node != nullptr && !node->is_table()) {
    report(place(name_, node->source()),
           fmt::format("{} = {}: expected a section; write [{}] and its keys below", name,
                       shown(*node), name));
    node = nullptr;
  }
  return Section(*this, std::string(name), node == nullptr ? nullptr : node->as_table());
}

void Document::finish() {
  for (const auto& [key, node] : root_) {
    if (std::find(asked_.begin(), asked_.end(), key.str()) != asked_.end()) continue;
    // A section that only the command line named has no place in the file.
    std::string where = place(name_, key.source());
    for (const auto& [set, given] : given_) {
      if (set.starts_with(fmt::format("{}.", key.str()))) where = given.source;
    }
    report(where, fmt::format("[{}]: unknown section{}; known are {}", key.str(),
                              did_you_mean(key.str(), asked_), fmt::join(asked_, ", ")));
  }
  if (!errors_.empty()) throw UsageError(std::move(errors_));
}

std::string Document::where(std::string_view key) const {
  const auto given = given_.find(key);
  if (given != given_.end()) return given->second.source;
  const auto value = root_.at_path(key);
  if (value.node() != nullptr) return place(name_, value.node()->source());
  return name_.empty() ? "sluice" : name_;
}

std::map<std::string, std::string, std::less<>> Document::places() const {
  std::map<std::string, std::string, std::less<>> places;
  for (const auto& [name, node] : root_) {
    const toml::table* table = node.as_table();
    if (table == nullptr) continue;
    for (const auto& [key, value] : *table) {
      places.emplace(key.str(), where(fmt::format("{}.{}", name.str(), key.str())));
    }
  }
  return places;
}

void Document::report(std::string_view where, std::string_view what) {
  errors_.push_back(error_line(where, what));
}

void Document::report_value(std::string_view key, const toml::node& value,
                            std::string_view expected) {
  report(where(key), fmt::format("{} = {}: expected {}", key, shown(value), expected));
}

std::string Section::full(std::string_view key) const { return fmt::format("{}.{}", name_, key); }

const toml::node* Section::find(std::string_view key) {
  asked_.emplace_back(key);
  return table_ == nullptr ? nullptr : table_->get(key);
}

std::optional<std::int64_t> Section::whole(std::string_view key, std::int64_t least,
                                           std::int64_t most) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  const auto* value = node->as_integer();
  if (value != nullptr && value->get() >= least && value->get() <= most) return value->get();
  const bool open = most == std::numeric_limits<std::int64_t>::max();
  document_.report_value(full(key), *node,
                         open ? fmt::format("a whole number, {} or more", least)
                              : fmt::format("a whole number from {} to {}", least, most));
  return std::nullopt;
}

std::optional<int> Section::whole(std::string_view key) {
  using Limits = std::numeric_limits<int>;
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  const auto* value = node->as_integer();
  if (value != nullptr && value->get() >= Limits::min() && value->get() <= Limits::max()) {
    return static_cast<int>(value->get());
  }
  document_.report_value(full(key), *node,
                         fmt::format("a whole number, at most {}", Limits::max()));
  return std::nullopt;
}

std::optional<double> Section::number(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (is_number(*node)) return number_of(*node);
  document_.report_value(full(key), *node, "a number");
  return std::nullopt;
}

std::optional<bool> Section::flag(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (node->is_boolean()) return node->value<bool>();
  document_.report_value(full(key), *node, "true or false");
  return std::nullopt;
}

std::optional<std::string> Section::text(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (node->is_string()) return node->value<std::string>();
  // On a command line `true` is a program as well, and 7 a file.
  const auto given = document_.given_.find(full(key));
  if (given != document_.given_.end()) return given->second.value;
  document_.report_value(full(key), *node, "a string in quotes");
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> Section::wholes(std::string_view key, std::int64_t least,
                                                         std::int64_t most) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (const toml::array* list = node->as_array()) {
    std::vector<std::int64_t> values;
    for (const toml::node& each : *list) {
      const auto* value = each.as_integer();
      if (value == nullptr || value->get() < least || value->get() > most) break;
      values.push_back(value->get());
    }
    if (values.size() == list->size()) return values;
  }
  document_.report_value(full(key), *node,
                         fmt::format("a list of whole numbers from {} to {}", least, most));
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> Section::whole_or_wholes(std::string_view key,
                                                                  std::int64_t least,
                                                                  std::int64_t most) {
  if (table_ != nullptr && table_->contains(key) && table_->get(key)->is_array()) {
    return wholes(key, least, most);
  }
  const auto value = whole(key, least, most);
  if (!value) return std::nullopt;
  return std::vector<std::int64_t>{*value};
}

std::optional<Time> Section::time(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  const auto time = time_of(*node);
  if (!time) document_.report_value(full(key), *node, "a number below 9e12");
  return time;
}

std::optional<std::vector<Time>> Section::times(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  std::vector<Time> values;
  std::size_t wanted = 1;
  if (const toml::array* list = node->as_array()) {
    wanted = std::max<std::size_t>(1, list->size());
    for (const toml::node& each : *list) {
      if (const auto time = time_of(each)) values.push_back(*time);
    }
  } else if (const auto time = time_of(*node)) {
    values.push_back(*time);
  }
  if (values.size() == wanted) return values;
  document_.report_value(full(key), *node,
                         "a number below 9e12, or a list of them, like 2 or [1, 1, 1.5]");
  return std::nullopt;
}

void Section::missing(std::string_view key, std::string_view option, std::string_view advice) {
  document_.report(
      document_.where(full(key)),
      fmt::format("{} is missing: expected a whole number, 1 or more; give {} or write "
                  "it in [{}]{}",
                  full(key), option, name_, advice));
}

void Section::reject(std::string_view key, std::string_view expected) {
  document_.report_value(full(key), *table_->get(key), expected);
}

void Section::finish() {
  if (table_ == nullptr) return;
  for (const auto& [key, node] : *table_) {
    if (std::find(asked_.begin(), asked_.end(), key.str()) != asked_.end()) continue;
    const std::string name = full(key.str());
    const auto given = document_.given_.find(name);
    document_.report(given != document_.given_.end() ? given->second.source
                                                     : place(document_.name_, key.source()),
                     fmt::format("{}: unknown key{}; known in [{}] are {}", name,
                                 did_you_mean(key.str(), asked_), name_, fmt::join(asked_, ", ")));
  }
}

}  // namespace sluice::tools
