// What the replayer's tests record and replay: adaptive runs of the toy, on machines that differ.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <sluice/replay/recording_writer.hpp>

#include "recorded_run.hpp"
#include "recording_support.hpp"

namespace sluice::test {

inline const std::vector<Machine> machines{{0, 0}, {0, 11}, {1, 3}, {2, 5}, {4, 9}};

inline ToyRun adaptive_run(int stages = 4, int microbatches = 9, int steps = 2) {
  ToyRun run;
  run.config = toy_config(stages, microbatches, OrderMode::adaptive);
  run.steps = steps;
  return run;
}

/// A recording of one step of `run`, two stages and three microbatches, in which rank 1 runs 1B1 before 1F1.
inline void write_impossible_order(const ToyRun& run, const std::string& file) {
  namespace format = replay::format;
  replay::RecordingWriter writer(file, small_header(2));
  const Plan plan = derive_plan(run.config);
  for (int r = 0; r < 2; ++r) {
    auto& rank = writer.rank(RankId(r));
    append_order(rank, plan.order[static_cast<std::size_t>(r)], 2);
    rank.append(format::Kind::step, 0);
    if (r == 0) {
      for (int i = 0; i < 12; ++i) rank.append_planned();
    } else {
      for (const char* action : {"1F0", "1B0", "1B1", "1F1", "1F2", "1B2"}) {
        rank.append(format::Kind::enter, replay::code_of(*parse_action(action), 2));
        rank.append_planned();
      }
    }
    rank.append_bytes(format::Kind::committed, std::array{std::byte(r)});
    rank.append(format::Kind::done);
  }
  writer.run().append_bytes(format::Kind::step_ended, std::array{std::byte(0)});
  writer.close();
}

}  // namespace sluice::test
