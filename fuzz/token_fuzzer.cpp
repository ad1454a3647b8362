// Any bytes as a token: refused with a reason, or read, and then written as the same token again; what it
// says can be told to a person and, when it is small, run.
//
// Random bytes would end at the sum. So an input is taken twice: as the text, and as the bytes that a token
// holds, around which prefix, letters and sum are put.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/finding.hpp>
#include <sluice/replay/pipeline_explorer.hpp>
#include <sluice/replay/token.hpp>

namespace {

using namespace sluice;
using namespace sluice::replay;

void require(bool holds) {
  if (!holds) std::abort();
}

bool is_small(const Token& token) {
  const PlanConfig& config = token.scenario.config;
  return config.stages <= 6 && config.microbatches <= 6 && token.deviations.size() <= 64 &&
         (!token.walk || token.walk->depth <= 4);
}

void read(std::string_view text) {
  Token token;
  try {
    token = parse_token(text);
  } catch (const std::invalid_argument& error) {
    require(std::strlen(error.what()) > 0);
    return;
  }
  const std::string written = to_string(token);
  const Token again = parse_token(written);
  require(to_string(again) == written);
  require(to_string(again.scenario) == to_string(token.scenario));
  require(again.deviations == token.deviations && again.walk == token.walk);
  if (!is_small(token) || token.own) return;
  try {
    const Plan plan = derive_plan(token.scenario.config);
    require(!expansion_of(token.scenario).empty());
    for (const Fault& fault : token.scenario.faults) {
      if (!can_strike(fault, plan)) return;
    }
    const Outcome outcome = replay_token(token);
    require(replay_token(token).kind == outcome.kind);
  } catch (const ConfigError& error) {
    require(std::strlen(error.what()) > 0);
  } catch (const std::invalid_argument& error) {  // costs of another shape
    require(std::strlen(error.what()) > 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  read({reinterpret_cast<const char*>(data), size});
  read(token_of_bytes(bytes));
  return 0;
}
