#include <sluice/unfinished.hpp>

#include <fmt/format.h>

namespace sluice {
namespace {

// More of a kind say no more.
constexpr std::size_t most_named = 16;

std::string listed(const std::vector<std::string>& items) {
  return fmt::format("{}", fmt::join(items, ", "));
}

}  // namespace

Unfinished unfinished_of(const detail::Progress& progress, const DueOnStages& due,
                         int microbatches) {
  using namespace detail;
  Unfinished result;
  for (const Progress::UnderWay& each : progress.under_way()) {
    if ((each.flags & everything) == 0 || finished(each.flags)) continue;
    ++result.held;
    for (unsigned kind = 0; kind < 3; ++kind) {
      const bool open = (each.flags & in_of(kind)) != 0 && (each.flags & out_of(kind)) == 0;
      if (!open || result.open.size() == most_named) continue;
      result.open.push_back(
          fmt::format("stage {}: {}", each.stage.value,
                      name_of(each.stage, each.mb, out_of(kind), (each.flags & split) != 0)));
    }
  }
  const std::size_t stages = progress.stages();
  if (stages == 0) return result;
  const auto at = [&progress](std::size_t s) -> const Progress::Stage& {
    return progress.stage(StageId(static_cast<std::int64_t>(s)));
  };
  std::int32_t most = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    const Progress::Stage& stage = at(s);
    const std::int32_t forwards = s == 0 ? 0 : at(s - 1).exited[forward] - stage.entered[forward];
    const bool last = s + 1 == stages;
    const std::int32_t gradients =
        (last ? stage.exited[forward] : at(s + 1).exited[gradient]) - stage.entered[gradient];
    const StageId id(static_cast<std::int64_t>(s));
    if ((forwards > 0 || gradients > 0) && result.waiting.size() < most_named) {
      const bool ahead = forwards > 0;
      const Action action(id, ahead ? Phase::forward : Phase::backward,
                          MicrobatchId(due[s][ahead ? forward : gradient]));
      result.waiting.push_back(fmt::format("stage {}: {}", id.value, to_string(action)));
    }
    if (forwards > most) {
      most = forwards;
      result.behind = id;
    }
  }
  const Progress::Stage& last = at(stages - 1);
  result.gate_shut = result.open.empty() && last.exited[forward] == microbatches &&
                     last.entered[gradient] < microbatches &&
                     (stages == 1 || at(stages - 2).entered[gradient] == last.exited[gradient]);
  return result;
}

std::string to_string(const Unfinished& unfinished) {
  if (unfinished.open.empty() && unfinished.waiting.empty()) {
    return fmt::format("the end, with {} microbatches on stages not finished", unfinished.held);
  }
  std::string text = "the end";
  if (!unfinished.open.empty()) text += fmt::format("; missing {}", listed(unfinished.open));
  if (!unfinished.waiting.empty()) text += fmt::format("; waiting {}", listed(unfinished.waiting));
  if (unfinished.behind) text += fmt::format("; stage {} is behind", unfinished.behind->value);
  return text;
}

}  // namespace sluice
