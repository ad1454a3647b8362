// What sluice explore has found, for a person and as JSON.
//
// Called once, when the exploration has ended; `Drawn` is told of each scenario of a swarm before that.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sluice/replay/pipeline_explorer.hpp>

#include "explore_subject.hpp"
#include "output.hpp"

namespace sluice::tools {

/// What a swarm has drawn, in numbers.
class Drawn {
 public:
  void add(const replay::Scenario& scenario) {
    const PlanConfig& config = scenario.config;
    ++count_;
    ++schedules_[std::string(to_string(config.schedule))];
    if (config.order == OrderMode::adaptive) ++adaptive_;
    if (config.credits) ++credits_;
    if (config.slots) ++slots_;
    if (!config.costs.link.empty()) ++links_;
    if (scenario.suspends) ++suspends_;
    most_stages_ = std::max(most_stages_, config.stages);
    most_microbatches_ = std::max(most_microbatches_, config.microbatches);
    for (const replay::Fault& fault : scenario.faults)
      ++faults_[std::string(to_string(fault.kind))];
  }
  std::string text() const {
    std::string text = fmt::format(
        "drawn             S to {}, M to {}; of {} scenarios {} with an adaptive order, {} with "
        "credits, {} with slots, {} with link times, {} whose stages suspend\n",
        most_stages_, most_microbatches_, count_, adaptive_, credits_, slots_, links_, suspends_);
    text += fmt::format("schedules         {}\n", list_of(schedules_));
    if (!faults_.empty()) text += fmt::format("faults            {}\n", list_of(faults_));
    return text;
  }

 private:
  static std::string list_of(const std::map<std::string, std::int64_t>& counts) {
    std::string text;
    for (const auto& [name, count] : counts) {
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", name, count);
    }
    return text;
  }

  std::int64_t count_ = 0, adaptive_ = 0, credits_ = 0, slots_ = 0, links_ = 0, suspends_ = 0;
  int most_stages_ = 0;
  int most_microbatches_ = 0;
  std::map<std::string, std::int64_t> schedules_;
  std::map<std::string, std::int64_t> faults_;
};

struct ExploreReport {
  const replay::PipelineExploration& result;
  const Subject& subject;
  const ExploreCommandOptions& options;
  const Drawn& drawn;
  const std::vector<std::string>& expansions;  ///< of everything drawn, for JSON
  const std::vector<std::string>& elsewhere;   ///< faults that there is nothing to strike for
};

std::string to_string(const ExploreReport& report);
Json json_of(const ExploreReport& report);

}  // namespace sluice::tools
