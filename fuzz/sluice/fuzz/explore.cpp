#include <sluice/fuzz/explore.hpp>

#include <fmt/format.h>

#include <sluice/replay/pipeline_explorer.hpp>

namespace sluice::fuzz {
namespace {

std::string report_of(const replay::PipelineFailure& failure) {
  std::string text = fmt::format(
      "{}, {} deviations\nsmallest: {}, {} deviations, fails {} times of 10\n{}\n",
      to_string(failure.original.scenario), failure.met_with, to_string(failure.token.scenario),
      failure.token.deviations.size(), failure.reproduced, failure.text);
  if (!failure.flips.empty()) text += failure.flips + '\n';
  return text + fmt::format("again: replay::replay_token(replay::parse_token(\"{}\"), policy)",
                            to_string(failure.token));
}

}  // namespace

std::string explore_policy(const std::shared_ptr<Policy>& policy, const SmallShapes& up_to) {
  for (int stages = 1; stages <= up_to.stages; ++stages) {
    for (int microbatches = 1; microbatches <= up_to.microbatches; ++microbatches) {
      for (int depth = 0; depth <= stages + microbatches; ++depth) {
        replay::Scenario scenario;
        scenario.config.stages = stages;
        scenario.config.microbatches = microbatches;
        scenario.config.drain_depth = depth;
        scenario.config.order = OrderMode::adaptive;
        replay::PipelineExploreOptions options;
        options.runs = up_to.runs;
        for (const auto strategy : {replay::Exploring::exhaustive, replay::Exploring::random}) {
          options.strategy = strategy;
          const auto result = replay::explore_pipeline(scenario, options, policy);
          if (!result.failures.empty()) return report_of(result.failures.front());
        }
      }
    }
  }
  return "";
}

}  // namespace sluice::fuzz
