#include "replay_report.hpp"

#include <fmt/format.h>

#include <sluice/replay/recording_error.hpp>
#include <sluice/replay/step_state.hpp>

namespace sluice::tools {
namespace {

Json list_of(const std::vector<Action>& actions) {
  Json json = Json::array();
  for (const Action& action : actions) json.push_back(to_string(action));
  return json;
}

void write_refused(const std::string& message) {
  Json json;
  json["verdict"] = to_string(replay::Verdict::refused);
  json["message"] = message;
  write_result(to_text(json), std::nullopt);
}

}  // namespace

ExitCode exit_code_of(replay::Verdict verdict) {
  switch (verdict) {
    case replay::Verdict::same:
    case replay::Verdict::recording_ends: return clean;
    case replay::Verdict::nothing_replayed:
    case replay::Verdict::refused: return unusable;
    default: return found;
  }
}

Json json_of(const replay::Divergence& divergence) {
  Json json;
  json["class"] = to_string(divergence.kind);
  json["seq"] = divergence.seq;
  json["step"] = divergence.step;
  json["rank"] = divergence.rank.value;
  json["local"] = divergence.local;
  if (divergence.stage) json["stage"] = divergence.stage->value;
  if (divergence.mb) json["mb"] = divergence.mb->value;
  if (divergence.phase) json["phase"] = std::string(1, letter(*divergence.phase));
  json["recorded"] = divergence.recorded;
  json["found"] = divergence.found;
  if (!divergence.last_agreeing.empty()) json["last_agreeing"] = divergence.last_agreeing;
  if (!divergence.held.empty()) {
    json["ready"]["recorded"] = list_of(divergence.ready_recorded);
    json["ready"]["found"] = list_of(divergence.ready_found);
    json["held"] = divergence.held;
    if (!divergence.credits.empty()) json["credits"] = divergence.credits;
    json["waiting"]["forwards"] = divergence.forwards_waiting;
    json["waiting"]["backwards"] = divergence.backwards_waiting;
    if (!divergence.suspicious.empty()) json["suspicious"] = divergence.suspicious;
  }
  json["message"] = divergence.message;
  return json;
}

Json json_of(const replay::Investigation& investigation) {
  Json json = json_of(investigation.divergence);
  json["nature"] = to_string(investigation.nature);
  if (!investigation.elsewhere.empty()) json["elsewhere"] = investigation.elsewhere;
  json["decisions"] = Json::array();
  for (const replay::Decision& decision : investigation.decisions) {
    json["decisions"].push_back({{"seq", decision.seq},
                                 {"rank", decision.rank.value},
                                 {"action", to_string(decision.action)},
                                 {"ready", list_of(decision.ready)}});
  }
  return json;
}

std::string identity_text(std::span<const replay::IdentityDifference> differences) {
  if (differences.empty()) return "  identity: the same here\n";
  std::string text = "  identity: differs, as allowed\n";
  for (const auto& difference : differences) {
    text += fmt::format("    {}: recorded {}, here {}\n", difference.key, difference.recorded,
                        difference.found);
  }
  return text;
}

Json json_of(std::span<const replay::IdentityDifference> differences) {
  Json json = Json::object();
  for (const auto& difference : differences) {
    json[difference.key] = {{"recorded", difference.recorded}, {"found", difference.found}};
  }
  return json;
}

int or_refused(bool json, const std::function<int()>& command) {
  if (!json) return command();
  try {
    return command();
  } catch (const Refused&) {
    throw;  // has said it
  } catch (const UsageError& error) {
    write_refused(fmt::format("{}", fmt::join(error.lines(), "\n")));
    throw;
  } catch (const std::exception& error) {
    write_refused(error.what());
    throw;
  }
}

}  // namespace sluice::tools
