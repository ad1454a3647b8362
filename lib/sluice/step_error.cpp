#include <sluice/step_error.hpp>

#include <utility>

#include <fmt/format.h>

#include <sluice/stage.hpp>

namespace sluice {

std::string_view to_string(StepError::Kind kind) {
  switch (kind) {
    case StepError::Kind::stage_failed: return "stage_failed";
    case StepError::Kind::source_failed: return "source_failed";
    case StepError::Kind::update_failed: return "update_failed";
    case StepError::Kind::stuck: return "stuck";
    case StepError::Kind::cancelled: return "cancelled";
    case StepError::Kind::timed_out: return "timed_out";
    case StepError::Kind::runtime_failed: return "runtime_failed";
  }
  return "";
}

std::string text_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that does not derive from std::exception";
  }
}

StepError StepError::from_stage(const Action& action, std::exception_ptr cause) {
  return StepError(Kind::stage_failed,
                   fmt::format("stage {}, mb {}, {} failed: {}", action.stage.value,
                               action.mb.value, letter(action.phase), text_of(cause)),
                   action, cause);
}

StepError StepError::from_source(MicrobatchId mb, int microbatches, std::exception_ptr cause) {
  const Action action(StageId(0), Phase::forward, mb);
  try {
    std::rethrow_exception(cause);
  } catch (const EndOfBatch&) {
    return StepError(
        Kind::source_failed,
        fmt::format(
            "stage 0, mb {}, F: short input: the batch source ended after {} of {} "
            "microbatches; give it the whole batch, or say in Batch::microbatches how many it has",
            mb.value, mb.value, microbatches),
        action, cause);
  } catch (...) {
    return StepError(
        Kind::source_failed,
        fmt::format("stage 0, mb {}, F: the batch source failed: {}", mb.value, text_of(cause)),
        action, cause);
  }
}

StepError StepError::from_update(StageId stage, std::exception_ptr cause) {
  return StepError(Kind::update_failed,
                   fmt::format("stage {}: the update could not be prepared: {}; no weight of any "
                               "stage was changed",
                               stage.value, text_of(cause)),
                   std::nullopt, cause);
}

StepError StepError::from_runtime(std::exception_ptr cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const StepError& error) {
    return error;
  } catch (...) {
    return StepError(Kind::runtime_failed, fmt::format("the runtime failed: {}", text_of(cause)),
                     std::nullopt, cause);
  }
}

}  // namespace sluice
