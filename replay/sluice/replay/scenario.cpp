#include <sluice/replay/scenario.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <sluice/edges.hpp>
#include <sluice/finding.hpp>
#include <sluice/random.hpp>
#include <sluice/replay/crc32c.hpp>

namespace sluice::replay {
namespace {

constexpr std::array<std::string_view, 10> fault_names{
    "throw", "slow", "nan", "alloc", "worker", "cancel", "deadline", "delay", "duplicate", "drop"};
constexpr std::string_view prefix = "slc1:";
constexpr std::string_view digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// On the way from one rank to another.
bool strikes_a_hand_over(Fault::Kind kind) { return kind >= Fault::Kind::delay; }
bool strikes_an_action(Fault::Kind kind) {
  return kind <= Fault::Kind::allocation || strikes_a_hand_over(kind);
}
/// Whether a fault of this kind means anything at `action`, one of the plan's. A weight gradient stays with
/// its stage: nobody looks for NaN in it but the stage.
bool means_something(Fault::Kind kind, const Action& action, std::span<const RankId> rank_of) {
  if (kind == Fault::Kind::nan) return action.phase != Phase::weight_gradient;
  return !strikes_a_hand_over(kind) || detail::sender_of(rank_of, action).has_value();
}

/// Numbers as bytes, seven bits each, the lowest first.
class Writer {
 public:
  void number(std::uint64_t value) {
    for (; value >= 128; value >>= 7U) bytes_.push_back(static_cast<std::byte>(value | 128U));
    bytes_.push_back(static_cast<std::byte>(value));
  }
  void times(const std::vector<Time>& times) {
    number(times.size());
    for (const Time time : times) number(static_cast<std::uint64_t>(time.millionths));
  }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t number(std::uint64_t most) {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (at_ == bytes_.size() || shift > 63) throw std::invalid_argument("it ends too early");
      const auto byte = static_cast<std::uint64_t>(bytes_[at_++]);
      value |= (byte & 127U) << shift;
      if (byte < 128) break;
    }
    if (value > most) throw std::invalid_argument("a number in it is out of range");
    return value;
  }
  int small(int most) { return static_cast<int>(number(static_cast<std::uint64_t>(most))); }
  std::vector<Time> times() {
    std::vector<Time> times(number(1024));
    for (Time& time : times) {
      time = Time::from_millionths(static_cast<std::int64_t>(number(std::uint64_t{1} << 53U)));
    }
    return times;
  }
  bool more() const { return at_ < bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

std::string base64(std::span<const std::byte> bytes) {
  std::string text;
  std::uint32_t bits = 0;
  int count = 0;
  for (const std::byte byte : bytes) {
    bits = bits << 8U | static_cast<std::uint32_t>(byte);
    for (count += 8; count >= 6; count -= 6) text += digits[bits >> (count - 6) & 63U];
  }
  if (count > 0) text += digits[bits << (6 - count) & 63U];
  return text;
}

std::vector<std::byte> from_base64(std::string_view text) {
  std::vector<std::byte> bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char digit : text) {
    const std::size_t value = digits.find(digit);
    if (value == std::string_view::npos) {
      throw std::invalid_argument(fmt::format("'{}' is no letter of a token", digit));
    }
    bits = bits << 6U | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) bytes.push_back(static_cast<std::byte>(bits >> (count -= 8) & 255U));
  }
  if ((bits & ((1U << count) - 1)) != 0) throw std::invalid_argument("its last letter is wrong");
  return bytes;
}

/// Which of the fields that have a default follow.
enum Has : std::uint32_t {
  has_depth = 1,
  has_credits = 2,
  has_slots = 4,
  has_chunks = 8,
  has_costs = 16,
  is_adaptive = 32,
  suspends = 64,
  in_model = 128,
  is_own = 256,
  has_walk = 512,
};

std::uint32_t fields_of(const Token& token) {
  const PlanConfig& config = token.scenario.config;
  const Costs& costs = config.costs;
  const bool costly = !costs.forward.empty() || !costs.backward.empty() ||
                      !costs.input_gradient.empty() || !costs.weight_gradient.empty() ||
                      !costs.link.empty() || costs.overhead > Time();
  return (config.drain_depth ? has_depth : 0U) | (config.credits ? has_credits : 0U) |
         (config.slots ? has_slots : 0U) | (config.chunks ? has_chunks : 0U) |
         (costly ? has_costs : 0U) | (config.order == OrderMode::adaptive ? is_adaptive : 0U) |
         (token.scenario.suspends ? suspends : 0U) | (token.world == World::model ? in_model : 0U) |
         (token.own || config.custom ? is_own : 0U) | (token.walk ? has_walk : 0U);
}

void write(Writer& out, const Token& token) {
  const PlanConfig& config = token.scenario.config;
  const std::uint32_t fields = fields_of(token);
  out.number(fields);
  out.number(static_cast<std::uint64_t>(config.stages));
  out.number(static_cast<std::uint64_t>(config.microbatches));
  out.number(static_cast<std::uint64_t>(config.schedule));
  if (config.drain_depth) out.number(static_cast<std::uint64_t>(*config.drain_depth));
  if (config.credits) {
    out.number(config.credits->size());
    for (const int credit : *config.credits) out.number(static_cast<std::uint64_t>(credit));
  }
  if (config.slots) out.number(static_cast<std::uint64_t>(*config.slots));
  if (config.chunks) out.number(static_cast<std::uint64_t>(*config.chunks));
  if ((fields & has_costs) != 0) {
    for (const auto* times :
         {&config.costs.forward, &config.costs.backward, &config.costs.input_gradient,
          &config.costs.weight_gradient, &config.costs.link}) {
      out.times(*times);
    }
    out.times({config.costs.overhead});
  }
  out.number(token.scenario.faults.size());
  for (const Fault& fault : token.scenario.faults) {
    out.number(static_cast<std::uint64_t>(fault.kind) << 2U |
               static_cast<std::uint64_t>(fault.action.phase));
    out.number(static_cast<std::uint64_t>(fault.action.stage.value));
    out.number(static_cast<std::uint64_t>(fault.action.mb.value));
  }
  if (token.walk) {
    const Walk& walk = *token.walk;
    out.number(static_cast<std::uint64_t>(walk.strategy));
    out.number(walk.seed);
    out.number(static_cast<std::uint64_t>(walk.run));
    out.number(static_cast<std::uint64_t>(walk.depth));
    out.number(static_cast<std::uint64_t>(walk.steps));
    return;
  }
  std::uint32_t from = 0;
  for (const Deviation& deviation : token.deviations) {
    out.number(deviation.decision - from);
    out.number(deviation.option);
    from = deviation.decision + 1;
  }
}

Token read(Reader& in) {
  constexpr int most = 1'000'000;
  Token token;
  PlanConfig& config = token.scenario.config;
  const auto fields = static_cast<std::uint32_t>(in.number(2 * has_walk - 1));
  config.stages = in.small(most);
  config.microbatches = in.small(most);
  config.schedule = static_cast<ScheduleName>(in.small(static_cast<int>(ScheduleName::custom)));
  if ((fields & has_depth) != 0) config.drain_depth = in.small(most);
  if ((fields & has_credits) != 0) {
    config.credits.emplace(static_cast<std::size_t>(in.small(1024)));
    for (int& credit : *config.credits) credit = in.small(most);
  }
  if ((fields & has_slots) != 0) config.slots = in.small(most);
  if ((fields & has_chunks) != 0) config.chunks = in.small(most);
  if ((fields & has_costs) != 0) {
    for (auto* times : {&config.costs.forward, &config.costs.backward, &config.costs.input_gradient,
                        &config.costs.weight_gradient, &config.costs.link}) {
      *times = in.times();
    }
    const auto overhead = in.times();
    if (overhead.size() != 1) throw std::invalid_argument("its overhead is not one number");
    config.costs.overhead = overhead.front();
  }
  if ((fields & is_adaptive) != 0) config.order = OrderMode::adaptive;
  token.scenario.suspends = (fields & suspends) != 0;
  token.world = (fields & in_model) != 0 ? World::model : World::runtime;
  token.own = (fields & is_own) != 0;
  token.scenario.faults.resize(static_cast<std::size_t>(in.small(64)));
  for (Fault& fault : token.scenario.faults) {
    const int kind = in.small(static_cast<int>(fault_names.size()) * 4 - 1);
    fault.kind = static_cast<Fault::Kind>(kind / 4);
    fault.action.phase = static_cast<Phase>(kind % 4);
    fault.action.stage = StageId(in.small(std::max(config.stages - 1, 0)));
    fault.action.mb = MicrobatchId(in.small(std::max(config.microbatches - 1, 0)));
  }
  if ((fields & has_walk) != 0) {
    Walk walk;
    walk.strategy = static_cast<StrategyName>(in.small(static_cast<int>(StrategyName::random)));
    walk.seed = in.number(std::numeric_limits<std::uint64_t>::max());
    walk.run = static_cast<std::int64_t>(in.number(std::uint64_t{1} << 62U));
    walk.depth = in.small(1000);
    walk.steps = static_cast<std::int64_t>(in.number(std::uint64_t{1} << 31U));
    if (in.more()) throw std::invalid_argument("it goes on behind its end");
    token.walk = walk;
  }
  std::uint64_t from = 0;
  while (in.more()) {
    Deviation deviation;
    from += in.number(most);
    deviation.decision = static_cast<std::uint32_t>(from++);
    deviation.option = static_cast<std::uint32_t>(in.number(most));
    token.deviations.push_back(deviation);
  }
  return token;
}

std::uint16_t sum_of(std::span<const std::byte> bytes) {
  return static_cast<std::uint16_t>(crc32c(bytes));
}

std::string list_of(const std::vector<Time>& times) {
  std::vector<double> units;
  units.reserve(times.size());
  for (const Time time : times) units.push_back(time.units());
  return fmt::format("{}", fmt::join(units, ","));
}

}  // namespace

std::string_view to_string(Fault::Kind kind) { return fault_names[static_cast<std::size_t>(kind)]; }

std::optional<Fault::Kind> parse_fault(std::string_view name) {
  const auto found = std::find(fault_names.begin(), fault_names.end(), name);
  if (found == fault_names.end()) return std::nullopt;
  return static_cast<Fault::Kind>(found - fault_names.begin());
}

std::string to_string(const Fault& fault) {
  std::string name(to_string(fault.kind));
  if (strikes_an_action(fault.kind)) return name + " at " + to_string(fault.action);
  if (fault.kind == Fault::Kind::worker) {
    return fmt::format("{} of stage {}", name, fault.action.stage.value);
  }
  return name;
}

bool can_strike(Fault::Kind kind, const Plan& plan) {
  return !strikes_a_hand_over(kind) || plan.ranks > 1;
}

bool can_strike(const Fault& fault, const Plan& plan) {
  if (!strikes_an_action(fault.kind)) return fault.action.stage.value < plan.stages;
  if (fault.action.stage.value >= plan.stages || fault.action.mb.value >= plan.microbatches) {
    return false;
  }
  if (!means_something(fault.kind, fault.action, plan.rank_of)) return false;
  return std::any_of(plan.order.begin(), plan.order.end(), [&](const auto& actions) {
    return std::find(actions.begin(), actions.end(), fault.action) != actions.end();
  });
}

std::string options_of(const PlanConfig& config) {
  std::string text = fmt::format("-S {} -M {}", config.stages, config.microbatches);
  if (config.drain_depth) text += fmt::format(" -W {}", *config.drain_depth);
  if (config.custom) {
    text += " --schedule FILE";
  } else if (config.schedule != ScheduleName::drain) {
    text += fmt::format(" --schedule {}", to_string(config.schedule));
  }
  if (config.chunks) text += fmt::format(" --chunks {}", *config.chunks);
  if (config.order == OrderMode::adaptive) text += " --order adaptive";
  if (config.credits) text += fmt::format(" --credits {}", fmt::join(*config.credits, ","));
  if (config.slots) text += fmt::format(" --slots {}", *config.slots);
  const std::array<std::pair<const char*, const std::vector<Time>*>, 5> lists{
      {{"--forward", &config.costs.forward},
       {"--backward", &config.costs.backward},
       {"--input-grad", &config.costs.input_gradient},
       {"--weight-grad", &config.costs.weight_gradient},
       {"--link", &config.costs.link}}};
  for (const auto& [option, times] : lists) {
    if (!times->empty()) text += fmt::format(" {} {}", option, list_of(*times));
  }
  if (config.costs.overhead > Time()) {
    text += fmt::format(" --overhead {}", config.costs.overhead.units());
  }
  return text;
}

std::string to_string(const Scenario& scenario) {
  std::string text = options_of(scenario.config);
  if (scenario.suspends) text += ", stages suspend";
  for (const Fault& fault : scenario.faults) text += ", " + to_string(fault);
  return text;
}

std::string expansion_of(const Scenario& scenario) {
  const Plan plan = derive_plan(scenario.config);
  std::string text = fmt::format(
      "{}, {} order, S={} on {} ranks (V={}), M={}, W={}, credits {}, gate {}, slots {}",
      to_string(plan.schedule), plan.order_mode == OrderMode::fixed ? "fixed" : "adaptive",
      plan.stages, plan.ranks, plan.stages / plan.ranks, plan.microbatches, plan.drain_depth,
      fmt::join(plan.credits, ","), plan.gate,
      plan.slots ? std::to_string(*plan.slots) : "never blocking");
  const std::array<std::pair<const char*, const std::vector<Time>*>, 5> lists{
      {{"forward", &plan.costs.forward},
       {"backward", &plan.costs.backward},
       {"input gradient", &plan.costs.input_gradient},
       {"weight gradient", &plan.costs.weight_gradient},
       {"link", &plan.costs.link}}};
  for (const auto& [name, times] : lists) {
    if (!times->empty()) text += fmt::format(", {} {}", name, list_of(*times));
  }
  text += fmt::format(", overhead {}, stages {}", plan.costs.overhead.units(),
                      scenario.suspends ? "suspend" : "do not suspend");
  if (scenario.faults.empty()) text += ", no fault";
  for (const Fault& fault : scenario.faults) text += ", " + to_string(fault);
  return text;
}

std::string to_string(const Token& token) {
  Writer out;
  write(out, token);
  return token_of_bytes(out.bytes());
}

std::string token_of_bytes(std::span<const std::byte> bytes) {
  const std::uint16_t sum = sum_of(bytes);
  std::vector<std::byte> all(bytes.begin(), bytes.end());
  all.push_back(static_cast<std::byte>(sum & 255U));
  all.push_back(static_cast<std::byte>(sum >> 8U));
  return std::string(prefix) + base64(all);
}

Token parse_token(std::string_view text) {
  try {
    if (!text.starts_with(prefix)) throw std::invalid_argument("it does not start with slc1:");
    const auto bytes = from_base64(text.substr(prefix.size()));
    if (bytes.size() < 2) throw std::invalid_argument("it ends too early");
    const auto body = std::span(bytes).first(bytes.size() - 2);
    const auto sum = static_cast<std::uint16_t>(static_cast<unsigned>(bytes[bytes.size() - 2]) |
                                                static_cast<unsigned>(bytes.back()) << 8U);
    if (sum != sum_of(body)) {
      throw std::invalid_argument("its sum is wrong: a letter was lost or changed");
    }
    Reader in(body);
    return read(in);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format(
        "'{}' is no token: {}; expected what sluice explore printed, whole", text, error.what()));
  }
}

Fault draw_fault(Fault::Kind kind, const Plan& plan, std::uint64_t seed, std::int64_t run) {
  KeyedRandom random(seed, run, "explore", static_cast<std::int64_t>(kind), "fault");
  Fault fault;
  fault.kind = kind;
  if (strikes_an_action(kind)) {
    std::vector<Action> places;
    for (const auto& actions : plan.order) {
      std::copy_if(
          actions.begin(), actions.end(), std::back_inserter(places),
          [&](const Action& action) { return means_something(kind, action, plan.rank_of); });
    }
    fault.action = places[random.below(static_cast<std::uint32_t>(places.size()))];
  } else if (kind == Fault::Kind::worker) {
    fault.action.stage = StageId(random.below(static_cast<std::uint32_t>(plan.stages)));
  }
  return fault;
}

namespace {

/// Draws until there is a plan of it: not every schedule takes every shape.
class Draw {
 public:
  Draw(std::uint64_t seed, std::int64_t run) : random_(seed, run, "explore", 0, "swarm") {}

  PlanConfig config() {
    for (;;) {
      PlanConfig config = shape();
      try {
        const Plan plan = derive_plan(config);
        if (below(2) == 0) return config;
        config.slots = plan.slots_safe.value_or(1) + below(3);
        derive_plan(config);
        return config;
      } catch (const ConfigError&) {
        continue;
      }
    }
  }
  int below(int bound) {
    return static_cast<int>(random_.below(static_cast<std::uint32_t>(bound)));
  }

 private:
  PlanConfig shape() {
    PlanConfig config;
    config.schedule = static_cast<ScheduleName>(below(static_cast<int>(ScheduleName::custom)));
    const int chunks = default_chunks(config.schedule);
    const bool any_chunks =
        config.schedule == ScheduleName::interleaved || config.schedule == ScheduleName::looped_bfs;
    const int used = any_chunks ? 1 + below(3) : chunks;
    if (used != chunks) config.chunks = used;
    config.stages = used * (1 + below(5));
    config.microbatches = 1 + below(12);
    if (config.schedule == ScheduleName::drain) {
      if (below(2) == 0) config.order = OrderMode::adaptive;
      if (below(3) == 0) {
        config.credits.emplace();
        for (int s = 0; s < config.stages; ++s) {
          config.credits->push_back(1 + below(config.microbatches + 1));
        }
      } else {
        config.drain_depth = below(config.stages + config.microbatches + 1);
      }
    }
    Costs& costs = config.costs;
    costs.forward = times(config.stages, 1);
    costs.backward = times(config.stages, 1);
    if (below(2) == 0) {
      costs.input_gradient = times(config.stages, 1);
      costs.weight_gradient = times(config.stages, 1);
    }
    if (config.stages > 1 && below(2) == 0) costs.link = times(config.stages - 1, 0);
    if (below(4) == 0) costs.overhead = time(0);
    return config;
  }
  Time time(int least) { return Time::from_units(0.5 * (2 * least + below(7))); }
  /// One for all, or each its own.
  std::vector<Time> times(int count, int least) {
    std::vector<Time> drawn(below(2) == 0 ? 1 : static_cast<std::size_t>(count));
    for (Time& each : drawn) each = time(least);
    return drawn;
  }

  KeyedRandom random_;
};

}  // namespace

Scenario draw_scenario(std::uint64_t seed, std::int64_t run, std::span<const Fault::Kind> kinds) {
  Draw draw(seed, run);
  Scenario scenario;
  scenario.config = draw.config();
  scenario.suspends = draw.below(2) == 0;
  if (kinds.empty() || draw.below(4) == 0) return scenario;
  const Plan plan = derive_plan(scenario.config);
  const Fault::Kind kind =
      kinds[static_cast<std::size_t>(draw.below(static_cast<int>(kinds.size())))];
  if (can_strike(kind, plan)) scenario.faults.push_back(draw_fault(kind, plan, seed, run));
  return scenario;
}

}  // namespace sluice::replay
