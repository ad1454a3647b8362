// The layout of a recording's file, and the one table of record kinds: writer, reader and
// docs/recording-format.md all follow this file.
//
// A file is 4 KiB pages: header, its copy, identity (as many pages as it takes), then record pages.
// All numbers are little-endian. A record is a tag byte, its fields, and a commit byte:
//
//   tag = wire << 6 | number    stored last, in release order: a record is there with its tag
//   fields                      as `wire` says, so that unknown kinds can be skipped
//   commit = 0x80 | epoch       of its page: tells a record that a power cut tore in two
//
// Old recordings must replay for ever: numbers and meanings in this file never change. What is added
// gets a new number, and a feature bit when a reader that skips it would misread the run.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace sluice::replay::format {

static_assert(std::endian::native == std::endian::little,
              "fields are copied as they lie in memory");

inline constexpr std::size_t page_size = 4096;
inline constexpr std::array<char, 8> magic{'s', 'l', 'u', 'i', 'c', 'e', 'r', '\n'};
inline constexpr std::uint16_t major_version = 1;
inline constexpr std::uint16_t minor_version = 2;
inline constexpr std::uint16_t minor_version_with_slots = 2;  // before, nobody knew of them
/// Required-feature bits: what a reader that does not know them would misread.
inline constexpr std::uint64_t feature_ring = 1;   // pages are used again, and lie in any order
inline constexpr std::uint64_t feature_slots = 2;  // an action may have waited for a free slot
inline constexpr std::uint64_t known_features = feature_ring | feature_slots;

/// Where the fields of the header lie. The rest of its page is zero.
namespace header {
inline constexpr std::size_t magic = 0;           // 8 bytes
inline constexpr std::size_t major_version = 8;   // u16
inline constexpr std::size_t minor_version = 10;  // u16
inline constexpr std::size_t crc = 12;            // u32: of the page, with these four bytes zero
inline constexpr std::size_t required_features = 16;  // u64
inline constexpr std::size_t run_id = 24;             // 16 bytes
inline constexpr std::size_t ranks = 40;              // u32
inline constexpr std::size_t stages = 44;             // u32
inline constexpr std::size_t identity_size = 48;  // u32: bytes of UTF-8, zero-padded to whole pages
inline constexpr std::size_t identity_crc = 52;   // u32: of those whole pages
inline constexpr std::size_t mode = 56;           // u8: RecordingMode
inline constexpr std::size_t ring_pages = 60;     // u32: of each stream at most; 0: no ring
inline constexpr std::size_t slots = 64;          // u32: of an edge, and 1; 0: as many as it takes
inline constexpr std::size_t copies = 2;          // pages 0 and 1 of the file
}  // namespace header

/// Where the fields of a record page lie.
namespace page {
inline constexpr std::size_t magic = 0;   // u32
inline constexpr std::size_t stream = 4;  // u16: a rank, or `run_stream`
inline constexpr std::size_t epoch = 6;   // u8: 1; counts the uses of a page of a ring
inline constexpr std::size_t number = 8;  // u32: of the page in the file
inline constexpr std::size_t used = 12;   // u16: end of the last record; 0 while it is written to
inline constexpr std::size_t crc = 16;    // u32: of the page, with these four bytes zero
inline constexpr std::size_t first_record = 24;  // u64: records of this stream on earlier pages
inline constexpr std::size_t records = 32;  // to the end of the page; zero where nothing is written

inline constexpr std::uint32_t magic_value = 0x67706c73;  // `slpg`
}  // namespace page

/// The stream of what concerns the run as a whole; written between steps.
inline constexpr std::uint16_t run_stream = 0xFFFF;
inline constexpr std::uint32_t most_ranks = 0xFFFF;
inline constexpr std::size_t page_room = page_size - page::records;

/// How long the fields of a record are.
enum class Wire : std::uint8_t {
  none,    ///< no field
  number,  ///< one varint
  bytes,   ///< a varint, then that many bytes
  hash,    ///< eight bytes
};

enum class Kind : std::uint8_t {
  order = 1,
  step = 2,
  planned = 3,
  enter = 4,
  exit = 5,
  failed = 6,
  stopped = 7,
  committed = 8,
  aborted = 9,
  done = 10,
  step_ended = 11,
  run_ended = 12,
  outside = 13,
  outside_more = 14,
  gap = 15,
  lines = 16,
  anchor = 17,
  result = 18,
  inbound = 19,
  inbound_more = 20,
};

struct KindRow {
  Kind kind;
  Wire wire;
  std::string_view name;
  std::string_view fields;
  std::string_view meaning;
};

inline constexpr std::array<KindRow, 20> kinds{{
    {Kind::order, Wire::bytes, "order", "position, total, actions...",
     "part of this rank's planned order, from `position` on; holds until the next with position 0"},
    {Kind::step, Wire::number, "step", "step", "a step begins on this rank"},
    {Kind::planned, Wire::number, "planned", "n",
     "the next n events, 1..127: the exit of the action that runs, else the enter of the first "
     "action of the order that has not started; grows in place"},
    {Kind::enter, Wire::number, "enter", "action", "another action than the planned one starts"},
    {Kind::exit, Wire::hash, "exit", "hash", "the running action has ended with this output"},
    {Kind::failed, Wire::none, "failed", "", "the running action has ended with an exception"},
    {Kind::stopped, Wire::none, "stopped", "", "the rank has seen that the step is to end"},
    {Kind::committed, Wire::bytes, "committed", "stage, [8 bytes: hash]",
     "a stage has applied its update; with the hash of its state, where it has one"},
    {Kind::aborted, Wire::number, "aborted", "stage", "a stage has dropped its gradients"},
    {Kind::done, Wire::none, "done", "", "nothing more comes from this rank in this step"},
    {Kind::step_ended, Wire::bytes, "step_ended", "step, text",
     "run stream: all ranks are done; the step's error, empty when its update was applied"},
    {Kind::run_ended, Wire::number, "run_ended", "pages",
     "run stream: the recording was closed, with so many pages in its file"},
    {Kind::outside, Wire::bytes, "outside", "failed, bytes of name, name, bytes of value, value...",
     "the running action has read a value from outside; with `failed` 1 reading threw, and the "
     "value "
     "is the text of the exception"},
    {Kind::outside_more, Wire::bytes, "outside_more", "value...",
     "the value before it goes on: it does not fit on its page"},
    {Kind::gap, Wire::number, "gap", "records",
     "so many of the stream's first records have fallen off when this page was taken again"},
    {Kind::lines, Wire::number, "lines", "lines",
     "run stream: of the text log, up to and with the step that has just ended"},
    {Kind::anchor, Wire::bytes, "anchor", "step, samples, hashed, [8 bytes: hash], file",
     "run stream: before this step the state is that of the file, or the initial one where there "
     "is none; so many samples were taken from the data before"},
    {Kind::result, Wire::bytes, "result", "8 bytes: loss, 8 bytes: hash",
     "run stream: what the step that has just ended came to; the hash is of its other figures"},
    {Kind::inbound, Wire::bytes, "inbound", "role, saved, bytes of value, value...",
     "the running action was given this value, in the encoding of the program that records; role "
     "0: "
     "its input, 1: the target of its microbatch; with `saved` 0 its bytes are not here"},
    {Kind::inbound_more, Wire::bytes, "inbound_more", "value...",
     "the value before it goes on: it does not fit on its page"},
}};

/// Null for kinds of a later version.
constexpr const KindRow* row_of(std::uint8_t tag) {
  for (const KindRow& row : kinds) {
    if (tag == (static_cast<std::uint8_t>(row.wire) << 6 | static_cast<std::uint8_t>(row.kind))) {
      return &row;
    }
  }
  return nullptr;
}

constexpr std::byte tag_of(Kind kind) {
  const KindRow& row = kinds[static_cast<std::size_t>(kind) - 1];
  return static_cast<std::byte>(static_cast<std::uint8_t>(row.wire) << 6 |
                                static_cast<std::uint8_t>(kind));
}

inline constexpr std::uint64_t most_planned = 127;  // one varint byte
inline constexpr std::uint8_t first_epoch = 1;
inline constexpr std::uint8_t last_epoch = 127;  // then the first again

constexpr std::byte commit_of(std::uint8_t epoch) { return static_cast<std::byte>(0x80 | epoch); }

template <class Number>
void put(std::byte* at, Number value) {
  std::memcpy(at, &value, sizeof value);
}

template <class Number>
Number get(const std::byte* at) {
  Number value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

inline constexpr std::size_t longest_varint = 10;

/// Seven bits a byte, lowest first. Returns the end.
inline std::byte* put_varint(std::byte* at, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) *at++ = static_cast<std::byte>(value | 0x80);
  *at++ = static_cast<std::byte>(value);
  return at;
}

/// Takes a varint off the front of `bytes`. False: it does not end there, or is over 64 bits.
inline bool take_varint(std::span<const std::byte>& bytes, std::uint64_t& value) {
  value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < longest_varint; ++i) {
    const auto byte = static_cast<std::uint64_t>(bytes[i]);
    if (i == longest_varint - 1 && byte > 1) return false;
    value |= (byte & 0x7F) << (7 * i);
    if (byte < 0x80) {
      bytes = bytes.subspan(i + 1);
      return true;
    }
  }
  return false;
}

}  // namespace sluice::replay::format
