#include <sluice/schedule.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace sluice {
namespace {

constexpr std::array<std::pair<ScheduleName, std::string_view>, 4> names{{
    {ScheduleName::drain, "drain"},
    {ScheduleName::one_f_one_b, "1f1b"},
    {ScheduleName::gpipe, "gpipe"},
    {ScheduleName::eager_1f1b, "eager-1f1b"},
}};

}  // namespace

std::string_view to_string(ScheduleName name) {
  return std::find_if(names.begin(), names.end(),
                      [name](const auto& entry) { return entry.first == name; })
      ->second;
}

std::optional<ScheduleName> parse_schedule_name(std::string_view text) {
  for (const auto& [name, spelling] : names) {
    if (spelling == text) return name;
  }
  return std::nullopt;
}

Action static_action(StageId stage, int microbatches, int drain_depth, int k) {
  const int warm_up = std::min(microbatches, drain_depth - stage.value);
  if (k < warm_up) return Action(stage, Phase::forward, MicrobatchId(k));
  const int in_pairs = k - warm_up;
  const int pairs = microbatches - warm_up;
  if (in_pairs >= 2 * pairs) {
    return Action(stage, Phase::backward, MicrobatchId(in_pairs - pairs));
  }
  return in_pairs % 2 == 0 ? Action(stage, Phase::forward, MicrobatchId(warm_up + in_pairs / 2))
                           : Action(stage, Phase::backward, MicrobatchId(in_pairs / 2));
}

Order static_order(int stages, int microbatches, int drain_depth) {
  Order order(static_cast<std::size_t>(stages));
  for (int s = 0; s < stages; ++s) {
    auto& of_rank = order[static_cast<std::size_t>(s)];
    of_rank.reserve(2 * static_cast<std::size_t>(microbatches));
    for (int k = 0; k < 2 * microbatches; ++k) {
      of_rank.push_back(static_action(StageId(s), microbatches, drain_depth, k));
    }
  }
  return order;
}

}  // namespace sluice
