// Any bytes as a recording: the reader refuses them or reads them, and what it has read makes sense.
//
// Random bytes would end at the first checksum. So an input is taken twice: as a file, and as the records
// of pages around which header, page headers and checksums are put.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include <sluice/replay/causal_order.hpp>
#include <sluice/replay/crc32c.hpp>
#include <sluice/replay/diff.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/replay/recording_format.hpp>
#include <sluice/replay/recording_header.hpp>

namespace {

using namespace sluice;
using namespace sluice::replay;

/// Pages of two ranks and the run, filled from the input: a byte says which stream and whether the page is
/// sealed, and in a ring which use of the page this is; the next how many records it claims to follow, two
/// how long it is.
std::vector<std::byte> in_pages(std::span<const std::byte> input, bool ring) {
  namespace page = format::page;
  RecordingHeader header;
  header.ranks = 2;
  header.stages = 3;
  if (ring) {
    header.mode = RecordingMode::ring;
    header.ring_pages = 4;
  }
  auto bytes = format::encode_header(header);
  while (input.size() >= 4) {
    const auto choice = std::to_integer<unsigned>(input[0]);
    const std::size_t wanted = format::get<std::uint16_t>(input.data() + 2) % format::page_room;
    const std::size_t size = std::min(wanted, input.size() - 4);
    const auto number = static_cast<std::uint32_t>(bytes.size() / format::page_size);
    bytes.resize(bytes.size() + format::page_size);
    std::byte* start = bytes.data() + bytes.size() - format::page_size;
    const std::uint16_t stream =
        choice % 3 == 2 ? format::run_stream : static_cast<std::uint16_t>(choice % 3);
    const bool being_taken = ring && choice % 32 == 31;
    format::put(start + page::magic, being_taken ? std::uint32_t{0} : page::magic_value);
    format::put(start + page::stream, stream);
    const unsigned uses = ring ? choice / 8 % 3 : 0;
    format::put(start + page::epoch, static_cast<std::uint8_t>(format::first_epoch + uses));
    format::put(start + page::number, number);
    format::put(start + page::first_record, std::to_integer<std::uint64_t>(input[1]));
    std::memcpy(start + page::records, input.data() + 4, size);
    if (choice % 2 == 0) {
      format::put(start + page::used, static_cast<std::uint16_t>(page::records + size));
      format::put(start + page::crc, crc32c(std::span(start, format::page_size)));
    }
    input = input.subspan(4 + size);
  }
  return bytes;
}

void require(bool holds) {
  if (!holds) std::abort();
}

void read(std::vector<std::byte> bytes) {
  try {
    const auto recording = Recording::parse(std::move(bytes), "fuzzed");
    std::int64_t seq =
        recording->begins_late() && recording->steps() > 0 ? recording->step(0).first_seq : 1;
    require(seq >= 1);
    for (std::size_t k = 0; k < recording->steps(); ++k) {
      const RecordedStep step = recording->step(k);
      require(step.complete || k + 1 == recording->steps());
      require(step.first_seq == seq);
      for (const auto& values : step.inbound) {
        for (const RecordedInbound& value : values) {
          require(value.bytes().size() == (value.saved ? value.size : 0));
        }
      }
      for (const auto& events : step.ranks) {
        std::int64_t lamport = 0;
        for (const Event& event : events) {
          require(event.lamport > lamport);
          lamport = event.lamport;
          seq += is_logged(event);
        }
      }
    }
    const auto same = diff(*recording, *recording);
    require(same.verdict == Verdict::same || same.verdict == Verdict::recording_ends);
  } catch (const RecordingError& error) {
    require(std::strlen(error.what()) > 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  read({input.begin(), input.end()});
  read(in_pages(input, false));
  read(in_pages(input, true));
  return 0;
}
