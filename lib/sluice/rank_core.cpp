#include <sluice/rank_core.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <sluice/step_core.hpp>

namespace sluice::detail {

RankCore::RankCore(StepCore& step, RankId id, std::size_t actions, asio::any_io_executor executor,
                   Pace& pace, std::unique_ptr<RankDirector> director)
    : step_(step),
      id_(id),
      actions_(actions),
      pace_(pace),
      director_(std::move(director)),
      berth_(std::move(executor), pace.turn()) {
  metrics_.rank = id;
}

bool RankCore::file(TicketBase& ticket) {
  switch (inbox_.file(ticket)) {
    case Inbox::Filed::joined: return true;
    case Inbox::Filed::found_parked: wake(ticket.brisk); return true;
    case Inbox::Filed::closed: break;
  }
  return false;
}

void RankCore::nudge(const Berth* brisk) {
  if (inbox_.nudge() == Inbox::Filed::found_parked) wake(brisk);
}

void RankCore::wake(const Berth* brisk) {
  step_.woken();  // on the sleeper's behalf, before anyone can count it as asleep
  berth_.call(brisk);
}

void RankCore::sleep(Resumer<> sleeper) {
  if (step_.watched()) {
    asleep_since_ = step_.now_ns();
    if (!idle_since_) idle_since_ = asleep_since_;
  }
  berth_.sleep(std::move(sleeper));
  if (inbox_.park()) {
    step_.rested();
  } else {
    berth_.call();
  }
}

std::size_t RankCore::decide() {
  ++metrics_.decisions;
  if (asleep_since_) count_sleep();
  for (arrived_ = inbox_.take(); arrived_ != nullptr;) {
    // Once it is in the ready set its owner may be woken, and the ticket be filed again.
    TicketBase* next = arrived_->next;
    ready_.insert(arrived_);
    arrived_ = next;
  }
  metrics_.peak_ready = std::max(metrics_.peak_ready, static_cast<int>(ready_.size()));
  if (step_.slots().limited()) {
    ready_.offer_only([this](const Action& action) { return step_.slots().free_for(action); });
  }
  if (step_.stopping()) ready_.offer_stop();
  const auto options = ready_.options();
  if (step_.abandoned()) return options.size() - 1;

  ChoicePoint point;
  point.step = step_.number();
  point.rank = id_;
  point.position = static_cast<std::int64_t>(started_);
  const std::size_t chosen = director_->choose(point, options);
  if (chosen >= options.size()) {
    throw std::out_of_range(fmt::format(
        "rank {}: the director chose option {} of {}; a director returns an index into its options",
        id_.value, chosen, options.size()));
  }
  return chosen;
}

void RankCore::enter(TicketBase& ticket) {
  ++started_;
  if (ticket.action.phase == Phase::forward) ++forwards_;
  in_hand_ = &ticket;
  names_read_.clear();
  publish(ticket.action, true, false);
  lamport_ = std::max(lamport_, ticket.lamport);
  const bool slots = step_.slots().limited();
  if (slots) lamport_ = std::max(lamport_, step_.slots().take(ticket.action));
  Event event;
  event.kind = Event::Kind::enter;
  event.action = ticket.action;
  tell(event);
  if (slots) step_.free_slot(ticket.action, lamport_, brisk());
}

void RankCore::exit(TicketBase& ticket, std::optional<std::uint64_t> hash) {
  Event event;
  event.kind = Event::Kind::exit;
  event.action = ticket.action;
  event.hash = hash.value_or(0);
  event.hashed = hash.has_value();
  tell(event);
  ticket.lamport = lamport_;
  pace_.action_ended();
  ticket.brisk = brisk();
  in_hand_ = nullptr;
  publish(ticket.action, false, finished());
}

void RankCore::failed(const TicketBase& ticket) {
  Event event;
  event.kind = Event::Kind::failed;
  event.action = ticket.action;
  tell(event);
  in_hand_ = nullptr;
  publish(ticket.action, false, false);
}

void RankCore::updated(Event::Kind kind, StageId stage, std::optional<std::uint64_t> state_hash) {
  Event event;
  event.kind = kind;
  event.action.stage = stage;
  event.hash = state_hash.value_or(0);
  event.hashed = state_hash.has_value();
  tell(event);
}

TicketBase* RankCore::stop() noexcept {
  if (!finished() || in_hand_ != nullptr) {
    Event event;
    event.kind = Event::Kind::stopped;
    try {
      tell(event);
    } catch (...) {  // a director that cannot even be told
      step_.fail(std::current_exception());
    }
  }
  return take_all();
}

TicketBase* RankCore::give_up() noexcept {
  berth_.forget();
  return take_all();
}

TicketBase* RankCore::take_all() noexcept {
  TicketBase* all = inbox_.close();
  const auto add = [&all](TicketBase* ticket) {
    ticket->next = all;
    all = ticket;
  };
  while (arrived_ != nullptr) add(std::exchange(arrived_, arrived_->next));
  ready_.each(add);
  ready_.clear();
  if (in_hand_ != nullptr) add(std::exchange(in_hand_, nullptr));
  return all;
}

void RankCore::tell(Event event) {
  event.rank = id_;
  event.step = step_.number();
  event.local = local_++;
  event.lamport = ++lamport_;
  if (step_.watched()) event.time_ns = step_.now_ns();
  count(event);
  if (step_.keeps_events()) events_.push_back(event);
  director_->observe(event);
}

std::string RankCore::outside(std::string_view name, const std::function<std::string()>& read) {
  OutsideValue value;
  value.step = step_.number();
  value.action = in_hand_->action;
  value.name = name;
  value.occurrence = static_cast<int>(std::count(names_read_.begin(), names_read_.end(), name));
  names_read_.emplace_back(name);
  return director_->outside(value, read);
}

void RankCore::inbound(InboundValue::Role role, std::string_view bytes) {
  InboundValue value;
  value.action = in_hand_->action;
  value.role = role;
  value.bytes = bytes;
  director_->inbound(value);
}

void RankCore::publish(const Action& action, bool running, bool ended) {
  const auto bits = [](auto value) { return static_cast<std::uint64_t>(value); };
  published_action_.store(bits(action.mb.value) | bits(action.stage.value) << 32 |
                              bits(action.phase) << 60 | bits(running) << 62 | bits(ended) << 63,
                          std::memory_order_relaxed);
  published_counts_.store(bits(started_) << 32 | bits(forwards_), std::memory_order_relaxed);
}

RankPosition RankCore::position() const {
  const std::uint64_t action = published_action_.load(std::memory_order_relaxed);
  const std::uint64_t counts = published_counts_.load(std::memory_order_relaxed);
  RankPosition position;
  position.rank = id_;
  position.started = static_cast<std::int64_t>(counts >> 32);
  position.forwards = static_cast<std::int64_t>(counts & 0xFFFFFFFFU);
  position.running = (action >> 62 & 1) != 0;
  position.ended = (action >> 63 & 1) != 0;
  position.last = Action(StageId(static_cast<std::int64_t>(action >> 32 & 0xFFFFFFFU)),
                         static_cast<Phase>(action >> 60 & 3),
                         MicrobatchId(static_cast<std::int64_t>(action & 0xFFFFFFFFU)));
  return position;
}

void RankCore::count_sleep() {
  const std::int64_t now = step_.now_ns();
  // What has arrived meanwhile is still in the inbox.
  (ready_.size() == 0 ? metrics_.input_wait_ns : metrics_.order_wait_ns) += now - *asleep_since_;
  metrics_.longest_wait_ns = std::max(metrics_.longest_wait_ns, now - *idle_since_);
  asleep_since_.reset();
}

void RankCore::count(const Event& event) {
  switch (event.kind) {
    case Event::Kind::enter:
      if (metrics_.actions++ == 0) metrics_.first_enter_ns = event.time_ns;
      if (event.action.phase == Phase::forward) {
        metrics_.peak_held = std::max(metrics_.peak_held, ++held_);
      }
      entered_ns_ = event.time_ns;
      break;
    case Event::Kind::exit:
      if (releases(event.action.phase) || !step_.training()) --held_;
      [[fallthrough]];
    case Event::Kind::failed:
      metrics_.busy_ns += event.time_ns - entered_ns_;
      metrics_.last_exit_ns = event.time_ns;
      break;
    default: return;
  }
  if (step_.watched()) count_stage(event);
}

void RankCore::count_stage(const Event& event) {
  auto& stages = metrics_.stages;
  if (event.kind == Event::Kind::enter) {
    idle_since_.reset();
    const auto has = [&event](const StageMetrics& each) {
      return each.stage == event.action.stage;
    };
    stage_ =
        static_cast<std::size_t>(std::find_if(stages.begin(), stages.end(), has) - stages.begin());
    if (stage_ == stages.size()) {  // a stage begins after those before it: they stay ascending
      stages.emplace_back().stage = event.action.stage;
      held_by_stage_.push_back(0);
    }
    ++stages[stage_].actions;
    if (event.action.phase == Phase::forward) {
      stages[stage_].peak_held = std::max(stages[stage_].peak_held, ++held_by_stage_[stage_]);
    }
    return;
  }
  stages[stage_].busy_ns += event.time_ns - entered_ns_;
  const bool released = releases(event.action.phase) || !step_.training();
  if (event.kind == Event::Kind::exit && released) --held_by_stage_[stage_];
}

}  // namespace sluice::detail
