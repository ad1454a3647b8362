#include <sluice/replay/recorded_facts.hpp>

#include <fmt/format.h>
#include <xxhash.h>

#include <sluice/step.hpp>

namespace sluice::replay {

RecordedResult result_of(const StepResult& result) {
  RecordedResult recorded;
  recorded.loss = result.loss;
  for (const Figure& figure : result.figures) {
    recorded.figures =
        XXH3_64bits_withSeed(figure.name.data(), figure.name.size(), recorded.figures);
    recorded.figures = XXH3_64bits_withSeed(&figure.sum, sizeof figure.sum, recorded.figures);
  }
  return recorded;
}

std::string to_string(const RecordedResult& result) {
  return fmt::format("loss {}, other figures {:016x}", result.loss, result.figures);
}

}  // namespace sluice::replay
