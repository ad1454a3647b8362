// What an embedder writes: a stage's mathematics, and where microbatches come from.
//
// The core moves values of the user's type from stage to stage and never looks inside. Everything
// here is called on the executor of the rank that owns the stage, one call at a time; only that
// rank touches the stage, so a stage needs no locks. A stage function may suspend (a device event, a
// network read): its rank waits for it and runs nothing else meanwhile. It must not hold a lock
// across a suspension, nor block the thread on what another stage produces.
//
// `Value` must be default constructible (asio::awaitable asks for it) and movable.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <asio/awaitable.hpp>

#include <sluice/ids.hpp>
#include <sluice/random.hpp>

namespace sluice {

/// Where a stage function's outside values come from.
class OutsideSource {
 public:
  virtual ~OutsideSource() = default;
  virtual std::string outside(std::string_view name, const std::function<std::string()>& read) = 0;
};

/// A named sum over a step's microbatches, added in ascending order.
struct Figure {
  std::string name;
  double sum = 0;
};

/// What the forwards of one microbatch said.
struct Reported {
  double loss = 0;
  std::vector<Figure> figures;

  bool empty() const { return loss == 0 && figures.empty(); }
  void add(Reported next) {
    loss += next.loss;
    if (figures.empty()) {
      figures = std::move(next.figures);
    } else {
      std::move(next.figures.begin(), next.figures.end(), std::back_inserter(figures));
    }
  }
};

/// What a stage function knows about the action it runs. Owned by the rank, valid until the
/// awaitable that was given it completes.
template <class Value>
class ActionContext {
 public:
  ActionContext() = default;

  Action action;
  std::int64_t step = 0;           ///< counts from 0, over the life of the pipeline
  std::int64_t samples = 0;        ///< in this microbatch
  std::int64_t batch_samples = 0;  ///< in the global batch; the loss is a mean over these
  bool training = true;            ///< false: no backward will follow, keep nothing for it
  const Value* target = nullptr;   ///< of this microbatch; on the last stage only, else null
  std::uint64_t seed = 0;

  /// A random source keyed by (seed, step, parameter path, sample, use): the same numbers for any
  /// cut into stages, any schedule and any order.
  KeyedRandom random(std::string_view path, std::int64_t sample, std::string_view use) const {
    return KeyedRandom(seed, step, path, sample, use);
  }

  /// What `read` returns, recorded under `name`, so that a replay returns the same: for clocks, network
  /// input, anything that another run would answer differently. `T` is a std::string or trivially
  /// copyable.
  template <class Read>
  auto recorded(std::string_view name, Read read) {
    using T = decltype(read());
    if constexpr (std::is_same_v<T, std::string>) {
      return outside->outside(name, std::move(read));
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      const std::string bytes = outside->outside(name, [&read] {
        const T value = read();
        return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
      });
      if (bytes.size() != sizeof(T)) {
        throw std::runtime_error("recorded(\"" + std::string(name) + "\"): the recording holds " +
                                 std::to_string(bytes.size()) + " bytes, this program reads " +
                                 std::to_string(sizeof(T)));
      }
      T value;
      std::memcpy(&value, bytes.data(), sizeof(T));
      return value;
    }
  }

  /// A forward says what this microbatch lost, summed over its samples: the last stage's, as a rule. Where
  /// others have a loss of their own, the step's is the sum.
  void report_loss(double summed_over_samples) { reported.loss = summed_over_samples; }

  /// A forward adds to a further figure of the step: one of several losses, how many predictions were
  /// right.
  void report(std::string name, double amount) {
    reported.figures.push_back(Figure{std::move(name), amount});
  }

  Reported reported;                 ///< what was said, for the core
  OutsideSource* outside = nullptr;  ///< set by the core
};

/// What a backward hands back.
template <class Value>
struct Gradients {
  Value input;         ///< for the previous stage; empty on stage 0
  Value contribution;  ///< to this stage's weight gradient, from this microbatch alone

  Gradients() = default;
  Gradients(Value of_input, Value of_weights)
      : input(std::move(of_input)), contribution(std::move(of_weights)) {}
};

/// What a stage promises about executing the same action on the same input again, on the same machine.
enum class Determinism : std::uint8_t {
  none,       ///< anything
  tolerance,  ///< nearly the same
  bitwise,    ///< the same bits
};

/// One of the S parts of a model.
///
/// What the backward needs of a forward stays with the stage, by microbatch; `abort` drops it.
template <class Value>
class Stage {
 public:
  virtual ~Stage() = default;

  /// F. Takes the previous stage's output (the batch's input on stage 0), returns this stage's. On
  /// the last stage the result comes back as the `output_gradient` of its own backward (the prediction,
  /// or already the loss's gradient), and the loss goes to `context.report_loss`; in an evaluation
  /// (`context.training` is false) it is what the host is given, and nothing is to be kept.
  virtual asio::awaitable<Value> forward(ActionContext<Value>& context, Value input) = 0;

  /// B. Takes the gradient of this stage's output (on the last stage: what its forward returned).
  virtual asio::awaitable<Gradients<Value>> backward(ActionContext<Value>& context,
                                                     Value output_gradient) = 0;

  /// I: the half of B that the previous stage waits for. Keeps what `weight_gradient` will need. Only
  /// schedules that split the backward call it; a stage that cannot be split need not define it.
  virtual asio::awaitable<Value> input_gradient(ActionContext<Value>& context,
                                                Value output_gradient);

  /// W: the other half, for `context.action.mb`; returns its contribution. Runs some time after I.
  virtual asio::awaitable<Value> weight_gradient(ActionContext<Value>& context);

  /// Adds one microbatch's contribution to the step's gradient. Called exactly M times a step, in
  /// ascending microbatch order whatever order the backwards ran in.
  virtual void accumulate(MicrobatchId mb, Value contribution) = 0;

  /// First phase of the update: may throw, must not change weights. Called when all M
  /// contributions are in, on every stage before any `commit`.
  virtual void prepare_update(std::int64_t step) = 0;
  /// Second phase: applies the prepared update.
  virtual void commit() noexcept = 0;
  /// Instead of the update: drops gradients, and whatever is kept for backwards that will not come.
  virtual void abort() noexcept = 0;

  /// Of a stage that does not promise bits no hash is taken, and replay claims nothing of its values.
  virtual Determinism determinism() const { return Determinism::bitwise; }

  /// A hash of everything that later steps depend on (weights, optimizer state). Nothing when the stage
  /// does not offer one; then replay cannot claim "same" for the weights.
  virtual std::optional<std::uint64_t> state_hash() const { return std::nullopt; }
};

template <class Value>
asio::awaitable<Value> Stage<Value>::input_gradient(ActionContext<Value>&, Value) {
  throw std::logic_error(
      "this stage does not split its backward; define input_gradient and weight_gradient, or take "
      "a schedule without I and W");
}

template <class Value>
asio::awaitable<Value> Stage<Value>::weight_gradient(ActionContext<Value>& context) {
  return input_gradient(context, Value());  // says the same
}

/// What a stage factory is told.
struct StageContext {
  StageId stage;
  int stages = 0;
  std::uint64_t seed = 0;
};

/// Makes a stage. No globals: many ranks, and many pipelines, live in one process.
template <class Value>
using StageFactory = std::function<std::unique_ptr<Stage<Value>>(const StageContext&)>;

/// One slice of the global batch. The target travels with it to the last stage.
template <class Value>
struct MicrobatchData {
  Value input;
  Value target;
  std::int64_t samples = 0;

  MicrobatchData() = default;
  MicrobatchData(Value of_input, Value of_target, std::int64_t of_samples)
      : input(std::move(of_input)), target(std::move(of_target)), samples(of_samples) {}
};

/// Thrown by a BatchSource that has no more data than this: the step fails as one, naming how many
/// of the M microbatches there were.
class EndOfBatch : public std::runtime_error {
 public:
  EndOfBatch() : std::runtime_error("the batch source has no more microbatches") {}
};

/// Where a step's microbatches come from. Called in ascending order, one call at a time, on the
/// executor of the rank that owns stage 0, and only as stage 0 has room.
template <class Value>
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual asio::awaitable<MicrobatchData<Value>> next(MicrobatchId mb) = 0;
};

/// One step's work.
template <class Value>
struct Batch {
  std::shared_ptr<BatchSource<Value>> source;
  std::int64_t samples = 0;  ///< of the whole global batch, over all microbatches of all its passes
  /// M of this step, when it is not the plan's; the plan is derived anew for it. 0: the plan's.
  int microbatches = 0;
  /// False: a pass of gradient accumulation. Its gradients are kept, and the next steps add theirs,
  /// until one that updates. A pass that fails drops them all.
  bool update = true;
  /// The step ends with an error after this long; zero: never. A stage function that does not return
  /// cannot be ended: the step waits for it all the same.
  std::chrono::nanoseconds deadline{0};

  Batch() = default;
  Batch(std::shared_ptr<BatchSource<Value>> from, std::int64_t of_samples)
      : source(std::move(from)), samples(of_samples) {}
};

/// What the core may ask about a value that crosses a stage boundary. Specialise it for your type; by
/// default values are neither hashed nor checked nor saved.
template <class Value>
struct WireTraits {
  static constexpr bool hashes = false;
  /// Of all the bits that matter, for recordings in `verify` mode.
  static std::uint64_t hash(const Value&) { return 0; }
  // Optional members:
  // static bool finite(const Value&): no NaN, no Inf; for PipelineOptions::check_finite.
  // static Value clone(const Value&): a second one; for PipelineOptions::probe_determinism.
  // static std::string encode(const Value&): its bytes, shape included, so that a recording can hold it:
  //   what a failing action was given, or all that the last steps' actions were given.
  // static Value keep(const Value&): a second handle on the same contents, for encode, should the action
  //   fail. Asked for at every action, so it should cost nothing; writing through the first handle must
  //   not change what the second one shows. A type that is trivially copyable needs none. Without it
  //   a failing action's input is gone when its failure is known.
};

}  // namespace sluice
