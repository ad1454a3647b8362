#include "config_record.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace sluice::tools {
namespace {

std::optional<replay::RecordingMode> recording_mode(std::string_view name) {
  if (name == "full") return replay::RecordingMode::full;
  if (name == "verify") return replay::RecordingMode::verify;
  if (name == "ring") return replay::RecordingMode::ring;
  return std::nullopt;
}

}  // namespace

void read_record(Document& document, RecordConfig& record) {
  constexpr std::int64_t most_steps = 1'000'000;
  Section section = document.section("record");
  if (const auto mode = section.text("mode")) {
    record.off = *mode == "off";
    record.mode = recording_mode(*mode);
    if (!record.off && !record.mode) section.reject("mode", "off, ring, full or verify");
  }
  if (const auto file = section.text("file")) record.file = *file;
  record.ring_bytes =
      section.whole("ring_bytes", 1, std::int64_t{1} << 40).value_or(record.ring_bytes);
  record.overwrite = section.flag("overwrite").value_or(record.overwrite);
  if (const auto on_error = section.text("on_error")) {
    if (*on_error != "stop" && *on_error != "continue") {
      section.reject("on_error", "stop or continue");
    }
    record.go_on = *on_error == "continue";
  }
  record.sync_every =
      section.whole("sync_every", 0, std::numeric_limits<int>::max()).value_or(record.sync_every);
  record.payload = section.whole("payload", 0, most_steps).value_or(record.payload);
  if (record.payload > 0 && record.off) {
    section.reject("payload", "0 with record.mode = off: nothing is recorded");
  }
  if (record.payload > 0 && !record.off &&
      record.mode.value_or(replay::RecordingMode::ring) != replay::RecordingMode::ring) {
    section.reject("mode", "ring, with record.payload: the last steps' values are kept in a ring");
  }
  if (record.payload > 0 && record.file && !record.mode && !record.off) {
    section.reject(
        "payload",
        "record.mode = ring with it (--record-mode ring): the last steps' values are kept "
        "in a ring, not in a recording of the whole run");
  }
  section.finish();
}

}  // namespace sluice::tools
