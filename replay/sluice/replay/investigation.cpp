#include <sluice/replay/investigation.hpp>

#include <fmt/format.h>

#include <sluice/replay/step_state.hpp>

namespace sluice::replay {

std::string_view to_string(Nature nature) {
  switch (nature) {
    case Nature::program_changed: return "the program changed";
    case Nature::non_deterministic: return "non-deterministic";
  }
  return "";
}

Investigation investigate(const Replayer& replayer, const ReplayOptions& options,
                          const ReplayAgain& again) {
  Investigation result;
  result.divergence = *replayer.divergence();
  ReplayOptions verbose = options;
  verbose.keep_decisions_in = result.divergence.step;
  const auto second = again(verbose);
  const auto third = again(options);
  for (const auto& other : {second, third}) {
    if (other->divergence() && other->divergence()->message == result.divergence.message) continue;
    if (result.nature == Nature::non_deterministic) continue;
    result.nature = Nature::non_deterministic;
    result.elsewhere = other->divergence()
                           ? other->divergence()->message
                           : fmt::format("no difference: {}", to_string(other->verdict()));
  }
  result.decisions = second->decisions();
  return result;
}

std::string to_string(const Investigation& investigation) {
  const Divergence& divergence = investigation.divergence;
  std::string text = divergence.message + '\n' + circumstances_of(divergence);
  text +=
      fmt::format("  replayed twice more: {}, {}\n",
                  investigation.nature == Nature::program_changed ? "the same difference each time"
                                                                  : "not the same again",
                  to_string(investigation.nature));
  if (!investigation.elsewhere.empty()) {
    text += fmt::format("  another time: {}\n", investigation.elsewhere);
  }
  if (investigation.decisions.empty()) return text;
  text +=
      fmt::format("  the last {} decisions before it, as recorded; ready when they were made:\n",
                  investigation.decisions.size());
  for (const Decision& decision : investigation.decisions) {
    text += fmt::format("    seq {:<8} rank {:<4} {:<8} of {}\n", decision.seq, decision.rank.value,
                        to_string(decision.action), list_of(decision.ready));
  }
  return text;
}

}  // namespace sluice::replay
