// Any bytes as a schedule file, in both notations: a schedule that is a whole step and is written back
// as it was read, or one finding.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <sluice/finding.hpp>
#include <sluice/schedule_check.hpp>
#include <sluice/schedule_csv.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool legacy : {false, true}) {
    sluice::ScheduleCsvOptions options;
    options.legacy = legacy;
    try {
      const auto read = sluice::read_schedule_csv(text, options);
      if (sluice::check_schedule(read.schedule, read.microbatches)) std::abort();
      const auto again = sluice::read_schedule_csv(sluice::write_schedule_csv(read), options);
      if (again.schedule.order != read.schedule.order) std::abort();
      const auto ours = sluice::read_schedule_csv(sluice::write_schedule_csv(read.schedule));
      if (ours.schedule.order != read.schedule.order) std::abort();
    } catch (const sluice::ConfigError& error) {
      if (error.findings().size() != 1 || error.findings()[0].message.empty()) std::abort();
    }
  }
  return 0;
}
