// One step of a Pipeline<Value>: its ranks, its door, and the coroutines that run in it.
//
// Kept alive by those coroutines. Who touches what: a Rank, its own executor; the door and the intake,
// the executor of the rank that owns stage 0; the loss, that of the rank that owns the last stage.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/use_awaitable.hpp>

#include <sluice/delivery.hpp>
#include <sluice/director.hpp>
#include <sluice/door.hpp>
#include <sluice/edges.hpp>
#include <sluice/in_order.hpp>
#include <sluice/parcel.hpp>
#include <sluice/pipeline_options.hpp>
#include <sluice/plan.hpp>
#include <sluice/rank_core.hpp>
#include <sluice/split_table.hpp>
#include <sluice/stage.hpp>
#include <sluice/step_core.hpp>
#include <sluice/step_result.hpp>
#include <sluice/turn.hpp>

namespace sluice::detail {

/// A stage in the hands of its rank, for one step.
template <class Value>
struct OwnedStage {
  StageId id;
  Stage<Value>* stage = nullptr;
  InOrder<Value> contributions;

  /// Adds to the step's gradient, in ascending microbatch order whatever order the backwards ran in.
  void contribute(MicrobatchId of, Value contribution) {
    contributions.add(of, std::move(contribution), [this](MicrobatchId mb, Value next) {
      stage->accumulate(mb, std::move(next));
    });
  }
};

template <class Value>
class Rank : public RankCore {
 public:
  using RankCore::RankCore;

  std::vector<OwnedStage<Value>> stages;

  /// I has ended: its W may run from now on, whenever the order says so. Nobody waits for it.
  void defer_weight_gradient(const Ticket<Value>& after) {
    if (spare_.empty()) spare_.push_back(&deferred_.emplace_back());
    Ticket<Value>* ticket = spare_.back();
    spare_.pop_back();
    ticket->action = Action(after.action.stage, Phase::weight_gradient, after.action.mb);
    ticket->samples = after.samples;
    ticket->lamport = after.lamport;
    ready().insert(ticket);
  }
  /// W has ended.
  void weight_gradient_done(Ticket<Value>& ticket) { spare_.push_back(&ticket); }

  OwnedStage<Value>& owned(StageId id) {
    return *std::find_if(stages.begin(), stages.end(),
                         [id](const OwnedStage<Value>& each) { return each.id == id; });
  }

 private:
  std::deque<Ticket<Value>> deferred_;  // as many as are held at most; their addresses stay
  std::vector<Ticket<Value>*> spare_;
};

/// Gives a stage function that is run again what it was given the first time.
class RepeatedSource final : public OutsideSource {
 public:
  explicit RepeatedSource(OutsideSource& source) : source_(source) {}
  void begin_again() { next_ = 0; }

  std::string outside(std::string_view name, const std::function<std::string()>& read) override {
    if (next_ == values_.size()) values_.push_back(source_.outside(name, read));
    return values_[next_++];
  }

 private:
  OutsideSource& source_;
  std::vector<std::string> values_;
  std::size_t next_ = 0;
};

/// What a step needs of its pipeline.
template <class Value>
struct StepSetup {
  std::shared_ptr<const Plan> plan;
  std::int64_t number = 0;
  std::uint64_t seed = 0;
  bool training = true;
  bool keep_events = false;
  std::function<std::int64_t()> clock;
  std::vector<asio::any_io_executor> executors;  // per rank
  std::vector<Pace>* paces = nullptr;            // per rank
  std::vector<Stage<Value>*> stages;
  std::function<void(MicrobatchId, Value)> on_output;  // forward-only steps; may be empty
  std::shared_ptr<const SplitTable> split;
  Carry carry;
  FiniteCheck check_finite = FiniteCheck::none;
  bool probe_determinism = false;
  std::int64_t samples_before = 0;  // of earlier passes of the same global batch
};

template <class Value>
class Step : public StepCore, public std::enable_shared_from_this<Step<Value>> {
 public:
  Step(StepSetup<Value> setup, Director& director, Batch<Value> batch)
      : StepCore(setup.plan, setup.number, setup.training, setup.clock, setup.keep_events),
        setup_(std::move(setup)),
        batch_(std::move(batch)),
        door_(*this, room(), setup_.executors[plan().rank_of.front().index()],
              setup_.paces->front().turn()) {
    std::vector<RankCore*> cores;
    for (int r = 0; r < plan().ranks; ++r) {
      const RankId id(r);
      ranks_.push_back(std::make_unique<Rank<Value>>(
          *this, id, plan().order[id.index()].size(), setup_.executors[id.index()],
          (*setup_.paces)[id.index()], director.for_rank(plan(), id, number())));
      cores.push_back(ranks_.back().get());
    }
    for (int s = 0; s < plan().stages; ++s) {
      const StageId id(s);
      OwnedStage<Value> owned;
      owned.id = id;
      owned.stage = setup_.stages[id.index()];
      rank_of(id).stages.push_back(std::move(owned));
    }
    set_ranks(std::move(cores));
  }

  const Batch<Value>& batch() const { return batch_; }
  std::uint64_t seed() const { return setup_.seed; }
  /// How the backward of `mb` runs on `stage`: whole, or first its input gradient.
  Phase backward_phase(StageId stage, MicrobatchId mb) const {
    return setup_.split->is_split(stage, mb) ? Phase::input_gradient : Phase::backward;
  }
  StageId last_stage() const { return StageId(plan().stages - 1); }

  std::vector<std::unique_ptr<Rank<Value>>>& ranks() { return ranks_; }
  Rank<Value>& rank_of(StageId stage) { return *ranks_[plan().rank_of[stage.index()].index()]; }
  Door& door() { return door_; }

  /// A microbatch's way through one stage: files its ticket and sleeps until the stage has run the
  /// action. The microbatch goes on in the middle of that rank's turn, on that rank's executor.
  auto run(Ticket<Value>& ticket, Action action, Value value) {
    ticket.action = action;
    ticket.value = std::move(value);
    return asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr, Value)>(
        [this](Resumer<std::exception_ptr, Value> owner, Ticket<Value>* filed) {
          filed->owner.emplace(std::move(owner));
          const bool first = std::exchange(filed->first, false);
          // Once it is filed the ticket is the rank's, and may be gone.
          if (setup_.carry && sender_of(plan().rank_of, filed->action)) {
            carry(*filed);
          } else {
            file(*filed);
          }
          if (first) rested();
        },
        asio::use_awaitable, &ticket);
  }

  /// Hands a ticket in. Its microbatch ends when the rank has stopped.
  void file(Ticket<Value>& ticket) {
    Rank<Value>& rank = rank_of(ticket.action.stage);
    if (!rank.file(ticket)) send(rank.messages(), [this, late = &ticket] { turn_away(*late); });
  }

  /// The same by way of the embedder. On its way the ticket counts as awake: it can still arrive.
  void carry(Ticket<Value>& ticket) noexcept {
    const Action action = ticket.action;
    Rank<Value>& rank = rank_of(action.stage);
    bool crosses = false;
    try {
      auto parcel = std::make_shared<Parcel<Step>>(this->weak_from_this(), action);
      const auto number = crossings().add(ticket, rank.id());
      if (number) {
        crosses = true;
        woken();
        parcel->number = *number;
        setup_.carry(action, Delivery(std::move(parcel)));
        return;
      }
    } catch (...) {
      fail(std::current_exception());
    }
    if (!crosses) send(rank.messages(), [this, late = &ticket] { turn_away(*late); });
  }
  void arrived(Crossings::Number number) {
    TicketBase* const ticket = crossings().arrive(number);
    if (ticket == nullptr) return;
    file(static_cast<Ticket<Value>&>(*ticket));
    rested();
  }
  void lost(Crossings::Number number) {
    if (crossings().lose(number)) rested();
  }

  /// Ends a microbatch whose rank has stopped.
  void turn_away(Ticket<Value>& ticket) { ticket.hand_back(turned_away_, Value()); }

  /// The rank has run its last action, or has stopped: turns away whoever still waits for it.
  void end_rank(Rank<Value>& rank) {
    turn_away_all(rank.stop());
    if (setup_.carry) {
      const auto closed = crossings().close(rank.id());
      for (int i = 0; i < closed.under_way; ++i) rested();  // the rank itself is still awake
      turn_away_all(closed.tickets);
    }
    // Without stage 0 nobody needs new microbatches.
    if (&rank == &rank_of(StageId(0))) door_.close();
    rank_ended();
  }

  /// What a stage function has left beside its output: to the gradient, the loss, the figures. The error
  /// that it makes, if it makes one.
  std::exception_ptr take_in(OwnedStage<Value>& owned, Ticket<Value>& ticket,
                             ActionContext<Value>& context, const Value& output,
                             Value& contribution) {
    try {
      const Action action = context.action;
      check_finite(output, context.reported);
      if (action.phase == Phase::backward || action.phase == Phase::weight_gradient) {
        owned.contribute(action.mb, std::move(contribution));
      }
      if (action.phase == Phase::forward) {
        ticket.reported.add(std::move(context.reported));
        if (action.stage == last_stage()) add_reported(action.mb, std::move(ticket.reported));
      } else if (!context.reported.empty()) {
        throw std::logic_error(
            "reports a loss or a figure outside of its forward, when those of this microbatch may "
            "be "
            "under way already; report it in the forward");
      }
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  /// Throws when the embedder wants to know of NaN and Inf, and `output` holds one.
  void check_finite(const Value& output, const Reported& reported) const {
    if (setup_.check_finite == FiniteCheck::none) return;
    if (!std::isfinite(reported.loss)) {
      throw std::domain_error(fmt::format("its loss is {}", reported.loss));
    }
    if (setup_.check_finite == FiniteCheck::loss) return;
    if constexpr (requires { WireTraits<Value>::finite(output); }) {
      if (!WireTraits<Value>::finite(output)) {
        throw std::domain_error("its output holds NaN or Inf");
      }
    }
  }

  /// F. Twice, when the embedder wants to know whether stages keep what they promise.
  asio::awaitable<Value> forward(RankCore& rank, OwnedStage<Value>& owned,
                                 ActionContext<Value>& context, Value input) const {
    if constexpr (requires { WireTraits<Value>::clone(input); }) {
      if (setup_.probe_determinism && owned.stage->determinism() == Determinism::bitwise) {
        return forward_twice(rank, *owned.stage, context, std::move(input));
      }
    }
    return owned.stage->forward(context, std::move(input));
  }

  /// The intake has another microbatch with so many samples. They must add up to the batch, or the mean
  /// over its samples would be a lie.
  void count_samples(std::int64_t samples, bool last) {
    if (samples < 1 || samples > batch_.samples) {
      throw std::invalid_argument(fmt::format(
          "a microbatch of {} samples in a batch that was announced with {}; each holds at least 1",
          samples, batch_.samples));
    }
    samples_ += samples;
    const std::int64_t so_far = setup_.samples_before + samples_;
    if (so_far <= batch_.samples && (!last || !batch_.update || so_far == batch_.samples)) return;
    throw std::invalid_argument(fmt::format(
        "the microbatches hold {}{} samples, the batch was announced with {}; give Batch the sum "
        "over its microbatches, those of the passes before it included (one that failed has "
        "dropped "
        "them)",
        last ? "" : "at least ", so_far, batch_.samples));
  }
  std::int64_t samples() const { return samples_; }

  /// The context of the executors is going, and nothing runs any more: drops every coroutine that sleeps.
  void give_up() {
    StepCore::give_up();
    for (auto& rank : ranks_) drop_all(rank->give_up());
    drop_all(crossings().give_up());
    door_.give_up();
    setup_.executors.clear();
  }

  /// What the last stage said about a microbatch.
  void add_reported(MicrobatchId mb, Reported reported) {
    reported_.add(mb, std::move(reported), [this](MicrobatchId, Reported next) {
      loss_ += next.loss;
      for (Figure& figure : next.figures) {
        const auto known = std::find_if(figures_.begin(), figures_.end(), [&](const Figure& each) {
          return each.name == figure.name;
        });
        if (known == figures_.end()) {
          figures_.push_back(std::move(figure));
        } else {
          known->sum += figure.sum;
        }
      }
    });
  }

  /// Once all have ended; means something when there was no error.
  StepResult result() const {
    StepResult result;
    result.step = number();
    result.samples = samples_;
    result.loss = loss_ / static_cast<double>(batch_.samples);
    result.figures = figures_;
    return result;
  }

  void deliver(MicrobatchId mb, Value output) {
    if (setup_.on_output) setup_.on_output(mb, std::move(output));
  }

  /// Stage 0 no longer holds a microbatch.
  void released() { door_.leave(); }

  /// The microbatch has left a pipeline without backwards. Called on the last rank's executor.
  void left_forward_only() {
    woken();  // the message below is on its way
    send(entrance(), [self = this->shared_from_this()] {
      self->door_.leave();
      self->rested();
    });
  }

 private:
  void turn_away_all(TicketBase* tickets) {
    for (TicketBase* ticket = tickets; ticket != nullptr;) {
      TicketBase* next = ticket->next;  // turned away, the ticket is gone
      turn_away(static_cast<Ticket<Value>&>(*ticket));
      ticket = next;
    }
  }
  static void drop_all(TicketBase* tickets) {
    for (TicketBase* ticket = tickets; ticket != nullptr;) {
      TicketBase* next = ticket->next;  // without its owner the ticket is gone
      static_cast<Ticket<Value>*>(ticket)->owner.reset();
      ticket = next;
    }
  }

  // `stage` and `context` are those of `rank`, which awaits this.
  static asio::awaitable<Value> forward_twice(RankCore& rank, Stage<Value>& stage,
                                              ActionContext<Value>& context, Value input) {
    RepeatedSource outside(*context.outside);
    context.outside = &outside;
    Value again = WireTraits<Value>::clone(input);
    Value first = co_await stage.forward(context, std::move(input));
    context.reported = Reported();
    outside.begin_again();
    if (!rank.at_home()) co_await rank.come_home();
    Value second = co_await stage.forward(context, std::move(again));
    context.outside = &rank;
    if (WireTraits<Value>::hash(first) != WireTraits<Value>::hash(second)) {
      throw std::logic_error(
          "the stage declares bitwise determinism, yet the same input gave two outputs; declare "
          "what it keeps, or find what differs (threads of its own, uninitialised memory, a random "
          "source that is not keyed)");
    }
    co_return std::move(second);
  }

  void start() override;

  /// Without backwards nothing is held, and enough must be inside to keep every stage busy.
  int room() const {
    return 1 +
           std::max({plan().credits.front(), most_inside(plan()), training() ? 0 : plan().stages});
  }

  StepSetup<Value> setup_;
  Batch<Value> batch_;
  Door door_;
  std::vector<std::unique_ptr<Rank<Value>>> ranks_;
  std::int64_t samples_ = 0;
  InOrder<Reported> reported_;
  double loss_ = 0;
  std::vector<Figure> figures_;
  std::exception_ptr turned_away_ =
      std::make_exception_ptr(StepError(StepError::Kind::cancelled, "the step is ending"));
};

/// A coroutine's part in its step, which it keeps alive: the step has ended when all of them have. A
/// parameter of the coroutine, so that it ends with the coroutine's frame, however that goes.
template <class Value>
class Task {
 public:
  explicit Task(std::shared_ptr<Step<Value>> step) : step_(std::move(step)) {
    step_->task_started();
  }
  Task(Task&& other) noexcept : step_(std::move(other.step_)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (step_ && !step_->given_up()) step_->task_ended();
  }

  Step<Value>* step() const { return step_.get(); }

 private:
  std::shared_ptr<Step<Value>> step_;
};

}  // namespace sluice::detail
