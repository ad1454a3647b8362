#include "run_identity.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <toml++/toml.h>

#include <sluice/kernels/hash.hpp>
#include <sluice/kernels/idx.hpp>
#include <sluice/kernels/onednn.hpp>

#include "errors.hpp"
#include "output.hpp"

namespace sluice::tools {
namespace {

std::string hex(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

/// Two builds of the same sources may round differently, so only the very same program is the same.
std::string hash_of_this_program() {
  const auto bytes = kernels::read_file("/proc/self/exe", "mount /proc");
  return hex(kernels::hash_bytes(bytes.data(), bytes.size()));
}

#if defined(__clang__)
constexpr const char* compiler = "clang " __clang_version__;
#else
constexpr const char* compiler = "g++ " __VERSION__;
#endif

/// Every key below `table` with its value as TOML.
void flatten(const toml::table& table, const std::string& prefix, replay::Identity& keys) {
  for (const auto& [key, value] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* section = value.as_table()) {
      flatten(*section, name + '.', keys);
      continue;
    }
    std::ostringstream text;
    text << toml::toml_formatter(value);
    keys.emplace_back(name, text.str());
  }
}

replay::Identity config_in(std::string_view text) {
  replay::Identity keys;
  if (!describes_run(text)) return keys;
  try {
    toml::table config = toml::parse(Json::parse(text)["config"].get<std::string>());
    config.erase("record");
    flatten(config, "", keys);
  } catch (const toml::parse_error&) {  // of another version: it has no keys that we know
  }
  return keys;
}

}  // namespace

replay::Identity identity_of(const Config& config, const kernels::DataSet& data) {
  const auto kernels =
      kernels::kernel_identity(kernels::effective_kernel_threads(1, config.plan.stages));
  return {{"build", hash_of_this_program()},
          {"compiler", compiler},
          {"library", kernels.library},
          {"isa", kernels.isa},
          {"threads", std::to_string(kernels.threads)},
          {"data", hex(data.hash())}};
}

std::string describe_run(const Config& config, const replay::Identity& identity) {
  Json json;
  json["config"] = to_toml(config);
  for (const auto& [key, value] : identity) json["identity"][key] = value;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

replay::Identity identity_in(std::string_view text) {
  replay::Identity identity;
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return identity;
  const bool nested = json.contains("identity") && json["identity"].is_object();
  for (const auto& [key, value] : (nested ? json["identity"] : json).items()) {
    identity.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return identity;
}

bool describes_run(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  const auto is_text = [](const Json& value) { return value.is_string(); };
  return json.is_object() && json.contains("config") && is_text(json["config"]) &&
         json.contains("identity") && json["identity"].is_object() &&
         std::all_of(json["identity"].begin(), json["identity"].end(), is_text);
}

std::vector<replay::IdentityDifference> compare_runs(std::string_view recorded,
                                                     std::string_view found) {
  auto differences = replay::compare_identities(identity_in(recorded), identity_in(found));
  // Of a run of another program nothing is known that could differ.
  if (describes_run(recorded) && describes_run(found)) {
    const auto keys = replay::compare_identities(config_in(recorded), config_in(found));
    differences.insert(differences.end(), keys.begin(), keys.end());
  }
  return differences;
}

RecordedRun read_run(std::string_view text, const std::string& file) {
  if (!describes_run(text)) {
    throw UsageError(file,
                     "its header does not say how it was made: expected a configuration and an "
                     "identity; only recordings of sluice train can be replayed here whole. Of any "
                     "other: --schedule-only, or a Replayer in the program that made it");
  }
  const Json json = Json::parse(text, nullptr, false);
  RecordedRun run;
  run.config = parse_config(json["config"].get<std::string>(), file + " (its configuration)");
  require_training(run.config);
  for (const auto& [key, value] : json["identity"].items()) {
    run.identity.emplace_back(key, value.get<std::string>());
  }
  return run;
}

}  // namespace sluice::tools
