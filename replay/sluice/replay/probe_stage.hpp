// The stages of an explored pipeline: they hand on numbers that depend on where they have been, notice
// calls that are out of turn, and strike where a fault says so.
//
// Private to pipeline_program.cpp, whose world owns them and drives them on its one thread. (The value
// type of a pipeline cannot live in an unnamed namespace: coroutine frames of other headers hold it.)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <sluice/replay/deterministic_executor.hpp>
#include <sluice/replay/mix.hpp>
#include <sluice/replay/fault.hpp>
#include <sluice/stage.hpp>

namespace sluice::replay {

/// What travels: a number that tells where it has been.
struct Probe {
  std::uint64_t trail = 0;
  bool finite = true;
};

}  // namespace sluice::replay

template <>
struct sluice::WireTraits<sluice::replay::Probe> {
  static constexpr bool hashes = true;
  static std::uint64_t hash(const replay::Probe& probe) { return probe.trail; }
  static bool finite(const replay::Probe& probe) { return probe.finite; }
};

namespace sluice::replay {

/// Of virtual time: longer than everything else takes.
inline constexpr std::int64_t long_time_ns = 1'000'000'000'000;

/// The faults that are to strike, and the context in whose time they do.
struct Trouble {
  DeterministicContext* context = nullptr;
  std::vector<Fault> faults;
  bool suspends = false;

  bool strikes(Fault::Kind kind, const Action& action) const {
    return std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) {
      return fault.kind == kind && fault.action == action;
    });
  }
  bool any() const { return suspends || !faults.empty(); }
  bool has(Fault::Kind kind) const {
    return std::any_of(faults.begin(), faults.end(),
                       [kind](const Fault& fault) { return fault.kind == kind; });
  }
};

/// Hands on numbers that depend on every stage they have been through, and notices what is wrong.
class ProbeStage final : public Stage<Probe> {
 public:
  ProbeStage(const Trouble& trouble, StageId stage, int microbatches)
      : trouble_(trouble),
        stage_(static_cast<std::uint64_t>(stage.value)),
        kept_(static_cast<std::size_t>(microbatches)) {}

  asio::awaitable<Probe> forward(ActionContext<Probe>& context, Probe input) override {
    if (trouble_.any()) co_await begin(context.action);
    Kept& kept = at(context.action, Kept::nothing, Kept::activation);
    kept.trail = input.trail;
    if (context.target != nullptr) context.report_loss(1);
    co_return result(context.action, mix(input.trail, stage_));
  }
  asio::awaitable<Gradients<Probe>> backward(ActionContext<Probe>& context,
                                             Probe gradient) override {
    if (trouble_.any()) co_await begin(context.action);
    const Kept& kept = at(context.action, Kept::activation, Kept::nothing);
    Probe contribution;
    contribution.trail = mix(gradient.trail, kept.trail);
    co_return Gradients<Probe>(result(context.action, mix(gradient.trail, ~stage_)), contribution);
  }
  asio::awaitable<Probe> input_gradient(ActionContext<Probe>& context, Probe gradient) override {
    if (trouble_.any()) co_await begin(context.action);
    Kept& kept = at(context.action, Kept::activation, Kept::both);
    kept.trail = mix(gradient.trail, kept.trail);
    co_return result(context.action, mix(gradient.trail, ~stage_));
  }
  asio::awaitable<Probe> weight_gradient(ActionContext<Probe>& context) override {
    if (trouble_.any()) co_await begin(context.action);
    co_return result(context.action, at(context.action, Kept::both, Kept::nothing).trail);
  }
  void accumulate(MicrobatchId mb, Probe contribution) override {
    gradient_ = mix(mix(gradient_, static_cast<std::uint64_t>(mb.value)), contribution.trail);
  }
  void prepare_update(std::int64_t) override { ++prepared; }
  void commit() noexcept override {
    ++commits;
    applied = gradient_;
    drop();
  }
  void abort() noexcept override {
    ++aborts;
    drop();
  }
  std::optional<std::uint64_t> state_hash() const override { return applied; }

  void reset() {
    commits = aborts = prepared = 0;
    applied = 0;
  }

  int commits = 0;
  int aborts = 0;
  int prepared = 0;
  std::uint64_t applied = 0;

 private:
  struct Kept {
    enum What : std::uint8_t { nothing, activation, both };
    What what = nothing;
    std::uint64_t trail = 0;
  };

  Kept& at(const Action& action, Kept::What expected, Kept::What after) {
    Kept& kept = kept_[action.mb.index()];
    if (kept.what != expected) {
      throw std::logic_error(fmt::format("{} was called twice, or out of turn", to_string(action)));
    }
    kept.what = after;
    return kept;
  }
  Probe result(const Action& action, std::uint64_t trail) const {
    Probe probe;
    probe.trail = trail;
    probe.finite = !trouble_.strikes(Fault::Kind::nan, action);
    return probe;
  }
  asio::awaitable<void> begin(Action action) {
    if (trouble_.strikes(Fault::Kind::slow, action)) {
      co_await trouble_.context->async_sleep(long_time_ns, asio::use_awaitable);
    }
    if (trouble_.suspends) co_await asio::post(asio::use_awaitable);
    if (trouble_.strikes(Fault::Kind::fails, action)) throw std::runtime_error("planted");
  }
  void drop() noexcept {
    gradient_ = 0;
    for (Kept& kept : kept_) kept = Kept();
  }

  const Trouble& trouble_;
  std::uint64_t stage_;
  std::vector<Kept> kept_;
  std::uint64_t gradient_ = 0;
};

class ProbeSource final : public BatchSource<Probe> {
  asio::awaitable<MicrobatchData<Probe>> next(MicrobatchId mb) override {
    Probe input;
    input.trail = static_cast<std::uint64_t>(mb.value) + 1;
    co_return MicrobatchData<Probe>(input, Probe(), 1);
  }
};

/// What the stages would have applied if microbatch had followed microbatch.
inline std::vector<std::uint64_t> plain_loop(int stages, int microbatches) {
  std::vector<std::uint64_t> gradients(static_cast<std::size_t>(stages), 0);
  for (std::uint64_t mb = 0; mb < static_cast<std::uint64_t>(microbatches); ++mb) {
    std::vector<std::uint64_t> inputs;
    std::uint64_t trail = mb + 1;
    for (std::size_t s = 0; s < gradients.size(); ++s) {
      inputs.push_back(trail);
      trail = mix(trail, s);
    }
    for (std::size_t s = gradients.size(); s-- > 0;) {
      gradients[s] = mix(mix(gradients[s], mb), mix(trail, inputs[s]));
      trail = mix(trail, ~static_cast<std::uint64_t>(s));
    }
  }
  return gradients;
}

}  // namespace sluice::replay
