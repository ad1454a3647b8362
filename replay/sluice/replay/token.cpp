#include <sluice/replay/token.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include <sluice/replay/crc32c.hpp>

namespace sluice::replay {
namespace {

constexpr std::string_view prefix = "slc1:";
constexpr std::string_view digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

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
    const int kind = in.small(fault_kinds * 4 - 1);
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

}  // namespace

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

}  // namespace sluice::replay
