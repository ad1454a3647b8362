// Records some runs, and replays them: what the faults of replay_mutants.py are planted in.
//
//   mutant_replay record FOLDER          writes one recording a case
//   mutant_replay replay FOLDER          replays each, and prints what the replayer says
//   mutant_replay again FOLDER           runs each once more, recorded, and prints what a diff of the two
//                                        recordings says
//   mutant_replay clean FOLDER N         replays them N times all in all, under other picks each time,
//                                        and prints how often the replayer raised an alarm
//
// All but the last print one JSON object a case with what was seen of it from outside (mutant_cases.hpp).
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sluice/director.hpp>
#include <sluice/replay/diff.hpp>
#include <sluice/replay/identity.hpp>
#include <sluice/replay/recorder.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/replay/replayer.hpp>

#include "mutant_cases.hpp"

namespace sluice::test {
namespace {

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string list(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) all.push_back(in_quotes(text));
  return fmt::format("[{}]", fmt::join(all, ","));
}

void print(const Case& of, const Seen& seen, const std::string& verdict) {
  std::puts(
      fmt::format(R"({{"case":{},"stuck":{},"events":{},"errors":{},"results":{},"weights":{}{}}})",
                  in_quotes(of.name), seen.stuck, list(seen.events), list(seen.errors),
                  list(seen.results), in_quotes(seen.weights), verdict)
          .c_str());
  std::fflush(stdout);
}

Seen record_one(const Case& of, const std::string& file) {
  const Plan plan = derive_plan(of.config);
  replay::RecorderOptions options;
  options.run_id = {};
  auto recorder = std::make_shared<replay::Recorder>(
      file, plan, std::make_shared<LiveDirector>(policy_of(of, plan)), options);
  const Seen seen = run_case(of, As::live, recorder, of.seed);
  recorder->close();
  return seen;
}

std::string recording_of(const Case& of, const std::string& folder) {
  return folder + '/' + of.name + ".slrec";
}

void record(const std::string& folder) {
  for (const Case& of : cases()) print(of, record_one(of, recording_of(of, folder)), "");
}

struct Replayed {
  std::string verdict;
  std::optional<replay::Divergence> divergence;
  bool planned_otherwise = false;
  Seen seen;
};

Replayed replay_one(const Case& of, const std::shared_ptr<const replay::Recording>& recording,
                    std::uint64_t picks) {
  const Plan plan = derive_plan(of.config);
  auto replayer = std::make_shared<replay::Replayer>(
      recording, plan, std::make_shared<LiveDirector>(policy_for(plan)));
  Replayed replayed;
  replayed.planned_otherwise = !replay::compare_plans(*recording, plan).empty();
  replayed.seen =
      run_case(of, As::replay, replayer, picks, [&replayer] { return replayer->more(); });
  replayed.verdict = replayed.seen.stuck ? "stuck"
                     : replayer->more()  ? "unfinished"
                                         : to_string(replayer->verdict());
  replayed.divergence = replayer->divergence();
  return replayed;
}

std::string told_of(std::string_view verdict, const replay::Divergence* divergence) {
  std::string text = fmt::format(R"(,"verdict":{})", in_quotes(verdict));
  if (divergence == nullptr) return text;
  return text + fmt::format(R"(,"class":{},"step":{},"rank":{},"local":{})",
                            in_quotes(to_string(divergence->kind)), divergence->step,
                            divergence->rank.value, divergence->local);
}

void replay_all(const std::string& folder) {
  for (const Case& of : cases()) {
    std::string told;
    Seen seen;
    try {
      Replayed replayed =
          replay_one(of, replay::Recording::open(recording_of(of, folder)), of.seed + 100);
      seen = std::move(replayed.seen);
      told = told_of(replayed.verdict, replayed.divergence ? &*replayed.divergence : nullptr);
      if (replayed.planned_otherwise) told += R"(,"plan":true)";
    } catch (const std::exception& error) {
      told = fmt::format(R"(,"verdict":"error","message":{})", in_quotes(error.what()));
    }
    print(of, seen, told);
  }
}

void run_again(const std::string& folder) {
  const std::string again = folder + "/again.slrec";
  for (const Case& of : cases()) {
    std::string told;
    Seen seen;
    std::filesystem::remove(again);
    try {
      seen = record_one(of, again);
      const auto diff = replay::diff(*replay::Recording::open(recording_of(of, folder)),
                                     *replay::Recording::open(again));
      const auto& first = diff.actions ? diff.actions : diff.tensors;
      told = told_of(seen.stuck ? "stuck" : to_string(diff.verdict), first ? &*first : nullptr);
    } catch (const std::exception& error) {
      told = fmt::format(R"(,"verdict":"error","message":{})", in_quotes(error.what()));
    }
    print(of, seen, told);
  }
  std::filesystem::remove(again);
}

int replay_clean(const std::string& folder, std::int64_t times) {
  std::vector<std::shared_ptr<const replay::Recording>> recordings;
  for (const Case& of : cases()) {
    recordings.push_back(replay::Recording::open(recording_of(of, folder)));
  }
  const std::vector<Case> all = cases();
  std::int64_t alarms = 0;
  for (std::int64_t i = 0; i < times; ++i) {
    const std::size_t which = static_cast<std::size_t>(i) % recordings.size();
    const Case& of = all[which];
    const auto replayed = replay_one(of, recordings[which], static_cast<std::uint64_t>(i) + 1000);
    if (replayed.verdict == of.verdict()) continue;
    ++alarms;
    std::printf(
        "alarm: %s under picks %lld: %s\n", of.name.c_str(), static_cast<long long>(i + 1000),
        replayed.divergence ? replayed.divergence->message.c_str() : replayed.verdict.c_str());
  }
  std::printf("%lld replays, %lld alarms\n", static_cast<long long>(times),
              static_cast<long long>(alarms));
  return alarms == 0 ? 0 : 1;
}

int main_of(const std::vector<std::string>& arguments) {
  if (arguments.size() == 2 && arguments[0] == "record") {
    record(arguments[1]);
  } else if (arguments.size() == 2 && arguments[0] == "replay") {
    replay_all(arguments[1]);
  } else if (arguments.size() == 2 && arguments[0] == "again") {
    run_again(arguments[1]);
  } else if (arguments.size() == 3 && arguments[0] == "clean") {
    return replay_clean(arguments[1], std::stoll(arguments[2]));
  } else {
    std::fputs("usage: mutant_replay record|replay|again FOLDER, mutant_replay clean FOLDER N\n",
               stderr);
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace sluice::test

int main(int count, char** values) {
  try {
    return sluice::test::main_of({values + 1, values + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mutant_replay: %s\n", error.what());
    return 2;
  }
}