// The one error a step ends with.
//
// The first thing that goes wrong names itself here; everything else that ends because of it ends as
// cancelled and is not reported. Of stage functions that fail at the same time the first by cause is
// named (logical clock, then rank), whichever thread was faster. The original exception is kept, with
// its type.
// Copies share what they hold, so that it may be thrown, kept and read on any executor.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <sluice/ids.hpp>

namespace sluice {

class StepError : public std::runtime_error {
 public:
  enum class Kind : std::uint8_t {
    stage_failed,    ///< a stage function threw; `action` says where
    source_failed,   ///< the batch source threw, or ended early; `action` is stage 0's forward
    update_failed,   ///< `prepare_update` threw; the message says where
    stuck,           ///< every rank waits and nothing more can arrive
    cancelled,       ///< from outside
    timed_out,       ///< the batch's deadline has passed
    runtime_failed,  ///< a director threw, memory ran out, or an output arrived twice
  };

  StepError(Kind kind, const std::string& message, std::optional<Action> action = std::nullopt,
            std::exception_ptr cause = nullptr)
      : std::runtime_error(message), kind_(kind), action_(action), cause_(std::move(cause)) {}

  Kind kind() const { return kind_; }
  /// What was running, where that is known.
  const std::optional<Action>& action() const { return action_; }
  /// The exception that was thrown, with its own type; null when nothing was.
  const std::exception_ptr& cause() const { return cause_; }

  /// `stage 1, mb 3, F failed: <original text>`.
  static StepError from_stage(const Action& action, std::exception_ptr cause);
  static StepError from_source(MicrobatchId mb, int microbatches, std::exception_ptr cause);
  static StepError from_update(StageId stage, std::exception_ptr cause);
  /// What a director threw, or the runtime's own allocations. A StepError stands as it is.
  static StepError from_runtime(std::exception_ptr cause);

 private:
  Kind kind_;
  std::optional<Action> action_;
  std::exception_ptr cause_;
};

/// `stage_failed` and so on: what a dashboard calls it.
std::string_view to_string(StepError::Kind kind);

/// The text of an exception of any type.
std::string text_of(const std::exception_ptr& exception);

}  // namespace sluice
