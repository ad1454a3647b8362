// PyTorch's own schedule files: read, checked, written back, and the same as what we make.
//
// The files are PyTorch's and not ours to keep here. SLUICE_PYTORCH_SCHEDULES names a folder that has
// them (pytorch/pytorch, test/distributed/pipelining/artifacts); without it the tests are skipped.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/finding.hpp>
#include <sluice/schedule.hpp>
#include <sluice/schedule_csv.hpp>

namespace sluice {
namespace {

/// Without carriage returns, and with a newline at the end.
std::string with_plain_line_ends(std::string text) {
  std::erase(text, '\r');
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

class PyTorchSchedules : public testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("SLUICE_PYTORCH_SCHEDULES");
    if (folder == nullptr)
      GTEST_SKIP() << "SLUICE_PYTORCH_SCHEDULES names no folder with the files";
    folder_ = folder;
  }

  std::string text(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    EXPECT_TRUE(file) << (folder_ / name);
    std::ostringstream text;
    text << file.rdbuf();
    return with_plain_line_ends(text.str());
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(PyTorchSchedules, AllAreReadAndWrittenBackTheSame) {
  for (const char* name : {"zb1p_2rank_2stagep_compute.csv", "zb1p_2rank_2stagep_comms.csv",
                           "dualpipev_4rank_10mb.csv"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(write_schedule_csv(read_schedule_csv(text(name))), text(name));
  }
}

TEST_F(PyTorchSchedules, DualPipeVIsOursCellByCell) {
  EXPECT_EQ(write_schedule_csv(listed_schedule(ScheduleName::dualpipe_v, 8, 10, 2)),
            text("dualpipev_4rank_10mb.csv"));
}

TEST_F(PyTorchSchedules, InterleavedZeroBubbleIsOurs) {
  const auto theirs = read_schedule_csv(text("zb1p_2rank_2stagep_compute.csv"));
  const Schedule ours = listed_schedule(ScheduleName::zb_h1, 4, 8, 2);
  EXPECT_EQ(theirs.microbatches, 8);
  EXPECT_EQ(theirs.schedule.order, ours.order);
  EXPECT_EQ(theirs.schedule.rank_of, ours.rank_of);
}

TEST_F(PyTorchSchedules, TheOlderLettersAreReadOnlyWhenAskedFor) {
  for (const char* name : {"zb1p_2rank_2stagep_compute.csv", "zb1p_2rank_2stagep_comms.csv"}) {
    const std::string older = text(std::string("legacy-notation/") + name);
    EXPECT_THROW(read_schedule_csv(older), ConfigError) << name;
    ScheduleCsvOptions legacy;
    legacy.legacy = true;
    EXPECT_EQ(read_schedule_csv(older, legacy).schedule.order,
              read_schedule_csv(text(name)).schedule.order)
        << name;
  }
}

}  // namespace
}  // namespace sluice
