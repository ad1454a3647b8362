#include <sluice/progress.hpp>

#include <algorithm>
#include <utility>

#include <sluice/complaints.hpp>

namespace sluice::detail {

std::string name_of(StageId stage, MicrobatchId mb, std::uint32_t event, bool halves) {
  const unsigned kind = kind_of_event(event);
  const Phase phase = kind == forward  ? Phase::forward
                      : kind == weight ? Phase::weight_gradient
                      : halves         ? Phase::input_gradient
                                       : Phase::backward;
  return to_string(Action(stage, phase, mb),
                   enters(event) ? LogRecord::Event::enter : LogRecord::Event::exit);
}

std::vector<Progress::UnderWay> Progress::under_way() const {
  std::vector<UnderWay> all;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const Stage& stage = stages_[s];
    for (std::uint32_t i = 0; stage.used > 0 && i < stage.size; ++i) {
      const StageId id(static_cast<std::int64_t>(s));
      const MicrobatchId mb(std::int64_t{stage.done_below} + i);
      if (stage.ring[slot(stage, mb)] != 0) all.push_back({id, mb, flags(id, mb)});
    }
  }
  far_.each([&](InFlight::Key key, std::uint32_t) {
    const StageId id = InFlight::stage_of(key);
    const MicrobatchId mb = InFlight::mb_of(key);
    const Stage& stage = stages_[id.index()];
    if (covers(stage, mb) && stage.ring[slot(stage, mb)] != 0) return;  // has been seen above
    all.push_back({id, mb, flags(id, mb)});
  });
  std::sort(all.begin(), all.end(), [](const UnderWay& a, const UnderWay& b) {
    return InFlight::key_of(a.stage, a.mb) < InFlight::key_of(b.stage, b.mb);
  });
  return all;
}

/// Makes the ring long enough for `mb`, unless that is far ahead of all that is in it.
bool Progress::widen(Stage& stage, MicrobatchId mb) {
  constexpr std::uint32_t least = 16;
  const auto ahead = static_cast<std::uint32_t>(mb.value - stage.done_below);
  if (ahead >= 4 * (least + stage.used)) return false;
  const std::uint32_t size = std::max(least, std::bit_ceil(ahead + 1));
  auto ring = std::make_unique<std::uint32_t[]>(size);
  for (std::uint32_t i = 0; i < stage.size; ++i) {
    const std::uint32_t number = static_cast<std::uint32_t>(stage.done_below) + i;
    ring[number & (size - 1)] = stage.ring[number & (stage.size - 1)];
  }
  stage.ring = std::move(ring);
  stage.size = size;
  return true;
}

std::uint32_t Progress::add_far(StageId id, MicrobatchId mb, std::uint32_t flags) {
  used_ -= far_.size();
  const std::uint32_t there = far_.add(InFlight::key_of(id, mb), flags);
  used_ += far_.size();
  return there;
}

/// Forgets what is finished, from the first microbatch on.
void Progress::release(Stage& stage, StageId id) {
  MicrobatchId mb(stage.done_below);
  do {
    std::uint32_t& there = stage.ring[slot(stage, mb)];
    if (there != 0) {
      there = 0;
      --stage.used;
      --used_;
    }
    if (far_.size() > 0) {
      used_ -= far_.size();
      far_.erase(InFlight::key_of(id, mb));
      used_ += far_.size();
    }
    mb = MicrobatchId(++stage.done_below);
  } while (finished(flags(id, mb)));
}

}  // namespace sluice::detail
