// sluice pack, diff and show -o, end to end: one file carries a run elsewhere, and is judged strictly.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_run.hpp"

namespace sluice::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CaseFile : public SmallRun {
 protected:
  CaseFile() {
    const auto failed =
        train("--set train.fail=1F3 --set train.fail_step=2 --record " + recording());
    EXPECT_EQ(failed.code, 1) << failed.err;
  }
  std::string recording() const { return path("night.slrec"); }
  std::string packed() const { return path("night.slcase"); }
  CommandResult pack(const std::string& arguments = "") const {
    return sluice(fmt::format("pack {} -o {} {}", recording(), packed(), arguments));
  }
  /// Nothing is left of the run but the case file.
  void forget_the_run() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "")) {
      if (entry.path() != folder_ / "night.slcase") std::filesystem::remove_all(entry.path());
    }
  }
};

TEST_F(CaseFile, ReplaysWhereNothingElseOfTheRunIs) {
  const auto made = pack();
  ASSERT_EQ(made.code, 0) << made.err;
  const auto here = sluice("replay --json " + recording()).json();
  forget_the_run();
  // As on another machine: another folder, under another name.
  const Folder elsewhere;
  std::filesystem::copy(packed(), elsewhere / "case");
  std::filesystem::remove(packed());
  const std::string file = (elsewhere / "case").string();
  const auto there = sluice("replay --json --threads 2 " + file);
  EXPECT_EQ(there.code, 1) << there.err;
  EXPECT_EQ(there.json(), here);
  EXPECT_EQ(here["verdict"], "failed-as-recorded");

  const auto stopped = sluice("replay --json --until step=2,mb=3,stage=1,phase=F " + file);
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_EQ(stopped.json()["reached"]["step"], 2);
  EXPECT_THAT(sluice("show --mb 3 " + file).out, HasSubstr("enter 1F3"));
  EXPECT_EQ(sluice("replay --schedule-only --json " + file).json()["verdict"],
            "failed-as-recorded");
  EXPECT_EQ(sluice(fmt::format("diff --json {} {}", file, file)).json()["verdict"], "same");
}

TEST_F(CaseFile, SaysHowLargeBeforeItWrites) {
  const auto made = pack();
  EXPECT_THAT(made.out, AllOf(HasSubstr("run.slrec"), HasSubstr("config.toml"),
                              HasSubstr("data/train-images-idx3-ubyte.gz"), HasSubstr("together"),
                              HasSubstr("bytes before compression")));
  EXPECT_LT(made.out.find("together"), made.out.find("elsewhere: sluice replay night.slcase"));
  std::filesystem::remove(packed());
  const auto json = pack("--json").json();
  EXPECT_EQ(json["case_bytes"], std::filesystem::file_size(packed()));
  EXPECT_EQ(json["parts"]["run.slrec"], std::filesystem::file_size(recording()));
}

TEST_F(CaseFile, AnOldOneIsOverwrittenOnlyWhenAsked) {
  folder_.file("night.slcase", "\x28\xB5\x2F\xFD, an old one");
  const std::string old = read_text(packed());
  const auto again = pack();
  EXPECT_EQ(again.code, 2);
  EXPECT_EQ(again.out, "");
  EXPECT_THAT(again.err, AllOf(HasSubstr("exists already"), HasSubstr("--overwrite")));
  EXPECT_EQ(read_text(packed()), old);
  ASSERT_EQ(pack("--overwrite").code, 0);
  EXPECT_EQ(sluice("replay --json " + packed()).json()["verdict"], "failed-as-recorded");
}

TEST_F(CaseFile, NothingButAnOldCaseFileIsOverwritten) {
  folder_.file("notes", "precious");
  const std::string before = read_text(recording());
  for (const std::string& file : {recording(), path("notes"), path(""), std::string("/dev/full")}) {
    for (const char* overwrite : {"", "--overwrite"}) {
      const auto refused = sluice(fmt::format("pack {} -o {} {}", recording(), file, overwrite));
      EXPECT_EQ(refused.code, 2) << file;
      EXPECT_EQ(refused.out, "") << file;
    }
  }
  EXPECT_THAT(sluice(fmt::format("pack {0} -o {0} --overwrite", recording())).err,
              HasSubstr("expected an old case file, found something else"));
  EXPECT_EQ(read_text(recording()), before);
  EXPECT_EQ(read_text(path("notes")), "precious");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  EXPECT_EQ(sluice(fmt::format("pack {} -o /missing/folder/x", recording())).code, 2);
}

TEST_F(CaseFile, IsNotPackedAgain) {
  ASSERT_EQ(pack().code, 0);
  EXPECT_THAT(sluice(fmt::format("pack {} -o {}", packed(), path("x"))).err,
              HasSubstr("is a case file already"));
}

TEST_F(CaseFile, OtherDataAreNotPacked) {
  write_images(folder_, "train", 320, 1);
  const auto made = pack();
  EXPECT_EQ(made.code, 2);
  EXPECT_THAT(made.err, HasSubstr("not the data that the run read"));
  EXPECT_FALSE(std::filesystem::exists(packed()));
}

TEST_F(CaseFile, AFullDiskLeavesNothing) {
  const std::string command = fmt::format("ulimit -f 8; '{}' pack {} -o {} 2>{}", SLUICE_COMMAND,
                                          recording(), packed(), path("err"));
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_THAT(read_text(path("err")), HasSubstr("cannot be written"));
  EXPECT_FALSE(std::filesystem::exists(packed()));
  EXPECT_FALSE(std::filesystem::exists(packed() + ".part"));
}

TEST_F(CaseFile, ThatIsNotAsItWasWrittenIsRefused) {
  ASSERT_EQ(pack().code, 0);
  const std::string whole = read_text(packed());
  const auto broken = [&](const std::string& bytes) {
    folder_.file("night.slcase", bytes);
    const auto result = sluice("replay --json " + packed());
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.json()["verdict"], "refused");
    EXPECT_THAT(result.err, HasSubstr("error: "));
  };
  for (std::size_t size = 4; size < whole.size(); size += whole.size() / 9) {
    broken(whole.substr(0, size));
  }
  for (std::size_t at = 5; at < whole.size(); at += whole.size() / 9) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x55);
    broken(changed);
  }
}

/// `commands` in a shell, in a folder with the unpacked case, then packed again as `night.slcase`.
void repack(const Folder& folder, const std::string& commands, const std::string& names) {
  const std::string at = (folder / "").string();
  ASSERT_EQ(
      std::system(fmt::format("cd {0} && mkdir u && cd u && tar -xf ../night.slcase && {1} && "
                              "tar --zstd -cf ../night.slcase {2} && cd .. && rm -r u",
                              at, commands, names)
                      .c_str()),
      0);
}

TEST_F(CaseFile, HoldsOnlyWhatItLists) {
  if (std::system("tar --zstd -cf /dev/null --files-from /dev/null 2>/dev/null") != 0) {
    GTEST_SKIP() << "tar cannot compress with zstd here";
  }
  const std::string all =
      "case.json config.toml run.slrec data/train-images-idx3-ubyte.gz "
      "data/train-labels-idx1-ubyte.gz";
  const auto refusal = [&] { return sluice("replay " + packed()).err; };
  ASSERT_EQ(pack().code, 0);
  const std::string whole = read_text(packed());
  repack(folder_, "true", all);
  EXPECT_EQ(sluice("replay " + packed()).code, 1);  // any tar can make one

  repack(folder_, "echo x >> config.toml", all);
  EXPECT_THAT(refusal(), HasSubstr("config.toml has more than"));
  folder_.file("night.slcase", whole);
  repack(folder_, "sed -i s/microbatches/nicrobatches/ config.toml", all);
  EXPECT_THAT(refusal(), HasSubstr("config.toml is not as it was packed"));
  folder_.file("night.slcase", whole);
  repack(folder_, "true", "case.json config.toml run.slrec");
  EXPECT_THAT(refusal(), HasSubstr("data/train-images-idx3-ubyte.gz is missing"));
  folder_.file("night.slcase", whole);
  repack(folder_, "echo > more", all + " more");
  EXPECT_THAT(refusal(), HasSubstr("unexpected part 'more'"));
  folder_.file("night.slcase", whole);
  repack(folder_, "sed -i '0,/1/s//2/' case.json", all);
  EXPECT_THAT(refusal(), HasSubstr("a case file of version 2"));
  // A name that leads elsewhere is never written.
  folder_.file("night.slcase", whole);
  repack(folder_, "echo > ../outside", all + " -P ../outside");
  EXPECT_THAT(refusal(), HasSubstr("unexpected part '../outside'"));
}

/// So nothing can be left there either, however the command ends.
TEST_F(CaseFile, IsNeverUnpackedToADisk) {
  ASSERT_EQ(pack().code, 0);
  for (const std::string& command : {"replay " + packed(), "show " + packed()}) {
    const std::string line = fmt::format("'{}' {}", SLUICE_COMMAND, command);
    const auto here = shell(line);
    const auto without = shell("(ulimit -f 0; export TMPDIR=/missing; exec " + line + ") | cat");
    EXPECT_EQ(without.out, here.out);
    EXPECT_EQ(without.err, "");
    EXPECT_NE(here.out, "");
  }
}

// --- diff ---

TEST_F(CaseFile, DiffTellsTheFirstDifferenceInActionsAndInTensors) {
  const auto record = [&](const std::string& name, const std::string& settings) {
    EXPECT_EQ(train(fmt::format("--record {} --set train.steps=2 {}", path(name), settings)).code,
              0);
    return path(name);
  };
  const std::string one = record("one.slrec", "");
  const std::string again = record("again.slrec", "--set train.threads=4");
  const std::string other = record("other.slrec", "--set train.seed=4");
  const std::string order = record("order.slrec", "--set pipeline.drain_depth=6");
  const std::string shape = record("shape.slrec", "--set pipeline.stages=2");

  const auto same = sluice(fmt::format("diff {} {}", one, again));
  EXPECT_EQ(same.code, 0) << same.out;
  EXPECT_THAT(same.out, HasSubstr("same: 128 actions, 264 events and "));
  const auto json = sluice(fmt::format("diff --json {} {}", one, again)).json();
  EXPECT_EQ(json["verdict"], "same");
  EXPECT_EQ(json["actions"], 128);
  EXPECT_EQ(json["events"], 264);

  const auto numbers = sluice(fmt::format("diff {} {}", one, other));
  EXPECT_EQ(numbers.code, 1);
  EXPECT_THAT(numbers.out,
              AllOf(HasSubstr("actions: no difference\n"),
                    HasSubstr("tensors: tensor differs at step 0, seq 2, rank 0"),
                    HasSubstr("  recorded: exit 0F0 with output "), HasSubstr("  likely: "),
                    HasSubstr("  ready on rank 0: "), HasSubstr("sluice show " + one)));
  const auto orders = sluice(fmt::format("diff --json {} {}", one, order));
  EXPECT_EQ(orders.code, 1);
  EXPECT_EQ(orders.json()["divergence"]["class"], "action");
  EXPECT_TRUE(orders.json().contains("first_in_actions"));
  EXPECT_FALSE(orders.json().contains("first_in_tensors"));  // the same numbers in any order

  // What was set otherwise is named by its key.
  EXPECT_THAT(numbers.out, HasSubstr("train.seed: 3 in the first, 4 in the second\n"));
  EXPECT_EQ(orders.json()["differences"]["pipeline.drain_depth"]["found"], "6");
  EXPECT_THAT(same.out, AllOf(HasSubstr("train.threads: "), Not(HasSubstr("record."))));

  const auto shapes = sluice(fmt::format("diff --json {} {}", one, shape));
  EXPECT_EQ(shapes.code, 2);
  EXPECT_EQ(shapes.json()["verdict"], "refused");
  EXPECT_THAT(shapes.err, AllOf(HasSubstr("has 4 stages on 4 ranks"),
                                HasSubstr("  pipeline.stages: 4 in the first, 2 in the second")));
}

// --- show ---

TEST_F(CaseFile, ShowNeverWritesOverTheRecordingItReads) {
  const std::string before = read_text(recording());
  const auto result = sluice(fmt::format("show {} -o {}", recording(), recording()));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("which it is made from"));
  // Under another name too.
  std::filesystem::create_symlink(recording(), folder_ / "link");
  EXPECT_EQ(sluice(fmt::format("show {} -o {}", recording(), path("link"))).code, 2);
  // Nor over any other.
  std::filesystem::copy_file(recording(), path("other.slrec"));
  const auto other = sluice(fmt::format("show {} -o {}", recording(), path("other.slrec")));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("is there already, and is no text"));
  EXPECT_TRUE(read_text(path("other.slrec")) == before);
  EXPECT_EQ(read_text(recording()), before);
  EXPECT_EQ(sluice(fmt::format("show {} -o {}", recording(), path("text"))).code, 0);
  EXPECT_THAT(read_text(path("text")), HasSubstr("4 stages on 4 ranks"));
}

}  // namespace
}  // namespace sluice::test
