// sluice replay, end to end: what it does not take, and what it says then.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <sluice/replay/crc32c.hpp>
#include <sluice/replay/recording_format.hpp>

#include "recorded_small_run.hpp"

namespace sluice::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class ReplayRefusal : public RecordedSmallRun {};

/// Whoever wrote another identity would have written its checksums, too.
std::string with_identity_resealed(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  std::vector<std::byte> bytes(first, first + text.size());
  namespace format = replay::format;
  const auto put = [&](std::size_t at, std::uint32_t crc) { format::put(bytes.data() + at, crc); };
  const std::size_t identity = format::get<std::uint32_t>(bytes.data() + 48);
  const std::size_t pages = (identity + format::page_size - 1) / format::page_size;
  const std::uint32_t crc =
      replay::crc32c(std::span(bytes).subspan(2 * format::page_size, pages * format::page_size));
  for (const std::size_t copy : {std::size_t{0}, format::page_size}) {
    put(copy + 52, crc);
    put(copy + 12, 0);
    put(copy + 12, replay::crc32c(std::span(bytes).subspan(copy, format::page_size)));
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

TEST_F(ReplayRefusal, APointThatIsNotThereIsRefusedWithWhatThereIs) {
  ASSERT_EQ(record().code, 0);
  for (const auto& [until, says] : std::vector<std::pair<std::string, std::string>>{
           {"seq=0", "seq 0: expected 1 to 640"},
           {"seq=641", "seq 641: expected 1 to 640"},
           {"step=5,seq=1", "step 5: expected 0 to 4"},
           {"step=1,seq=1", "seq 1: expected 129 to 256"},
           {"step=9", "step 9: expected 0 to 4"},
           {"step=1,mb=8,stage=1,phase=F", "1F8 did not start in step 1"},
           {"step=1,mb=1,stage=1,phase=I", "there is: 1F1 1B1"},
           {"mb=1,stage=1,phase=F", "an action needs step, mb, stage and phase"},
           {"step=1,mb=1", "an action needs step, mb, stage and phase"},
           {"seq=5,mb=1", "seq names an action by itself"},
           {"step=1,mb=1,stage=1,phase=X", "'X' is no phase"},
           {"seq=x", "seq is no number"},
           {"seq=-1", "seq is no number"},
           {"seq=99999999999999999999", "seq is no number"},
           {"step=1,mb=99999999999,stage=1,phase=F", "no such stage or microbatch"},
           {"when=5", "unknown key 'when'"},
           {"seq", "'seq' has no value"},
           {"''", "'' has no value"},
           {",", "'' has no value"}}) {
    const auto result = replay("--until " + until);
    EXPECT_EQ(result.code, 2) << until;
    EXPECT_EQ(result.out, "") << until;
    EXPECT_THAT(result.err, AllOf(StartsWith("--until: error: "), HasSubstr(says))) << until;
  }
  EXPECT_THAT(replay("--rank 4").err, HasSubstr("--rank: error: 4: expected 0 to 3"));
  EXPECT_THAT(replay("--then live").err, HasSubstr("--until"));
}

TEST_F(ReplayRefusal, AnotherInstructionSetIsNamedFirstAndItsOrderStillReplays) {
  ASSERT_EQ(record().code, 0);
  std::string bytes = read_text(recording());
  const std::string isa = "\"isa\":\"";
  const auto at = bytes.find(isa);
  ASSERT_NE(at, std::string::npos);
  bytes[at + isa.size()] = 'X';
  // The checksum of the identity's page, as if it had been written so.
  folder_.file("run.slrec", with_identity_resealed(bytes));
  const auto refused = replay("--threads 4");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, AllOf(HasSubstr("refused: the same numbers cannot be expected here"),
                                 HasSubstr("  isa: recorded X"), HasSubstr("--schedule-only")));
  EXPECT_EQ(replay("--schedule-only").code, 0);
  EXPECT_EQ(replay("--allow isa --json").json()["verdict"], "same");
}

TEST_F(ReplayRefusal, TheIdentityIsComparedBeforeAnythingRuns) {
  ASSERT_EQ(record().code, 0);
  std::string bytes = read_text(recording());
  for (const char* key : {"isa", "threads", "build"}) {
    const std::string before = fmt::format("\"{}\":\"", key);
    const auto at = bytes.find(before);
    ASSERT_NE(at, std::string::npos);
    bytes[at + before.size()] = 'X';
  }
  folder_.file("run.slrec", with_identity_resealed(bytes));
  const auto refused = replay();
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, AllOf(HasSubstr("  build: recorded X"), HasSubstr("  isa: recorded X"),
                                 HasSubstr("  threads: recorded X")));
  const auto json = replay("--json").json();
  EXPECT_EQ(json["verdict"], "refused");
  EXPECT_EQ(json["differences"].size(), 3);
  EXPECT_FALSE(json.contains("actions"));
}

TEST_F(ReplayRefusal, OtherKernelThreadsAreNotComparable) {
  ASSERT_EQ(record().code, 0);
  std::string bytes = read_text(recording());
  const std::string threads = "\"threads\":\"1";
  const auto at = bytes.find(threads);
  ASSERT_NE(at, std::string::npos);
  bytes[at + threads.size() - 1] = '8';
  folder_.file("run.slrec", with_identity_resealed(bytes));
  const auto json = replay("--json");
  EXPECT_EQ(json.code, 2);
  EXPECT_EQ(json.json()["differences"]["threads"]["recorded"], "8");
  EXPECT_EQ(json.json()["differences"]["threads"]["found"], "1");
  EXPECT_THAT(replay("--schedule-only").out, HasSubstr("schedule matched, values not compared"));
}

TEST_F(ReplayRefusal, UnreadableFilesAreRefusedInJsonToo) {
  folder_.file("run.slrec", "this is a text\n");
  for (const std::string& command : std::vector<std::string>{
           "replay --json " + recording(), "show --json " + recording(),
           "replay --json --schedule-only " + recording(), "replay --json /missing.slrec",
           "show --format json /missing.slrec", "diff --json /missing.slrec /missing.slrec",
           "pack --json -o " + path("x.slcase") + " /missing.slrec"}) {
    const auto result = sluice(command);
    EXPECT_EQ(result.code, 2) << command;
    EXPECT_EQ(result.json()["verdict"], "refused") << command;
    EXPECT_NE(result.json()["message"], "") << command;
    EXPECT_THAT(result.err, HasSubstr("error: ")) << command;
  }
}

TEST_F(ReplayRefusal, OtherDataIsRefusedAndDivergesWhenAllowed) {
  ASSERT_EQ(record().code, 0);
  write_images(folder_, "train", 320, 1);
  const auto refused = replay();
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("refused"), HasSubstr("  data: recorded "), HasSubstr("--allow")));
  const auto json = replay("--json");
  EXPECT_EQ(json.code, 2);
  EXPECT_EQ(json.json()["verdict"], "refused");
  EXPECT_TRUE(json.json()["differences"].contains("data"));

  const auto diverged = replay("--json --allow data");
  EXPECT_EQ(diverged.code, 1);
  EXPECT_EQ(diverged.json()["verdict"], "diverged");
  const auto divergence = diverged.json()["divergence"];
  EXPECT_EQ(divergence["class"], "tensor");
  EXPECT_EQ(divergence["step"], 0);
  for (const char* key : {"seq", "rank", "local", "stage", "mb", "phase", "recorded", "found",
                          "last_agreeing", "message"}) {
    EXPECT_TRUE(divergence.contains(key)) << key;
  }
  EXPECT_THAT(replay("--allow data").out, HasSubstr("recorded: "));
}

TEST_F(ReplayRefusal, AFileThatIsNotAsItWasWrittenIsOneClearMessage) {
  ASSERT_EQ(record().code, 0);
  const std::string whole = read_text(recording());
  const auto broken = [&](const std::string& bytes) {
    folder_.file("run.slrec", bytes);
    const auto result = replay();
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith(recording() + ": error: "));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  // Any byte: header, its copy, identity, records.
  for (std::size_t at = 1; at < whole.size(); at += whole.size() / 23) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    broken(changed);
  }
  // Anywhere, on a page's border too.
  for (std::size_t size = 1; size < whole.size(); size += whole.size() / 11) {
    broken(whole.substr(0, size));
  }
  EXPECT_THAT(broken(whole.substr(0, whole.size() - 4096)), HasSubstr("cut short"));
  EXPECT_THAT(broken(whole.substr(0, whole.size() - 4096)), HasSubstr("--allow damage"));
  EXPECT_THAT(broken(""), HasSubstr("found 0 bytes"));
  broken("this is a text, not a recording\n");
  broken(std::string(100'000, '\0'));

  folder_.file("run.slrec", whole.substr(0, whole.size() - 4096));
  const auto left = replay("--json --allow damage");
  EXPECT_EQ(left.code, 0);
  EXPECT_EQ(left.json()["verdict"], "recording-ends");
  EXPECT_THAT(show().out, HasSubstr("damage: cut short"));
}

TEST_F(ReplayRefusal, ADeviceOrAPipeIsNoRecording) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const std::string& file : {std::string("/dev/zero"), path("pipe"), path(".")}) {
    for (const char* command : {"show ", "replay ", "diff /dev/zero ", "pack -o x.slcase "}) {
      const auto result =
          shell(fmt::format("ulimit -v 4000000; exec '{}' {}{}", SLUICE_COMMAND, command, file));
      EXPECT_EQ(result.code, 2) << command << file;
      EXPECT_THAT(result.err, HasSubstr("no regular file")) << command << file;
    }
  }
}

TEST_F(ReplayRefusal, MissingFilesAndWrongOptionsEndWithTwo) {
  for (const char* arguments :
       {"replay", "replay /missing.slrec", "replay /", "show /missing.slrec", "show",
        "replay x --schedule-only --until seq=5 --then live", "replay x --threads 0",
        "replay x --schedule-only --threads 2", "replay x --allow nothing", "replay x --untli",
        "show x --format png"}) {
    const auto result = sluice(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_THAT(result.err, HasSubstr("error: ")) << arguments;
  }
}

}  // namespace
}  // namespace sluice::test
