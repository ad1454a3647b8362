// DeepSpeed's JSON: gradient_accumulation_steps is the number of microbatches of its pipeline, and
// train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x replicas, where
// replicas are the devices over the stages, never all the ranks.

#include <cstdint>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "errors.hpp"
#include "foreign_settings.hpp"

namespace sluice::tools {
namespace {

struct Known {
  const char* theirs;
  const char* section;
  const char* ours;
};

constexpr Known known[] = {
    {"train_batch_size", "batch", "global"},
    {"train_micro_batch_size_per_gpu", "batch", "micro"},
    {"gradient_accumulation_steps", "pipeline", "microbatches"},
};
constexpr Known in_pipeline[] = {{"stages", "pipeline", "stages"}};

/// Long values are cut: a message is a line.
std::string shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  ForeignSettings read(std::string_view text) {
    const auto json = nlohmann::json::parse(text, nullptr, false, true);
    if (!json.is_object()) {
      throw UsageError(name_, "not a JSON object; expected DeepSpeed's configuration, { ... }");
    }
    for (const auto& [key, value] : json.items()) {
      if (key == "pipeline" && value.is_object()) {
        for (const auto& [inner, each] : value.items()) take(in_pipeline, "pipeline.", inner, each);
      } else {
        take(known, "", key, value);
      }
    }
    if (!errors_.empty()) throw UsageError(std::move(errors_));
    settings_.values.push_back({"pipeline.schedule", "1f1b", name_});
    return std::move(settings_);
  }

 private:
  template <std::size_t Count>
  void take(const Known (&table)[Count], const std::string& prefix, const std::string& key,
            const nlohmann::json& value) {
    for (const Known& each : table) {
      if (key != each.theirs) continue;
      if (value == "auto") return;  // filled in by a launcher, from the rest
      const std::string theirs = prefix + key;
      const std::string source = fmt::format("{}: {}", name_, theirs);
      const bool whole =
          value.is_number_integer() && value >= 1 && value <= std::numeric_limits<int>::max();
      if (!whole) {
        errors_.push_back(error_line(
            name_, fmt::format("{} = {}: expected a whole number from 1 to {}, or \"auto\"", theirs,
                               shown(value), std::numeric_limits<int>::max())));
        return;
      }
      settings_.values.push_back({fmt::format("{}.{}", each.section, each.ours),
                                  std::to_string(value.get<std::int64_t>()), source});
      settings_.names[each.ours] = theirs;
      return;
    }
    settings_.unused.push_back(prefix + key);
  }

  const std::string& name_;
  ForeignSettings settings_;
  std::vector<std::string> errors_;
};

}  // namespace

ForeignSettings read_deepspeed(std::string_view text, const std::string& name) {
  return Reader(name).read(text);
}

}  // namespace sluice::tools
