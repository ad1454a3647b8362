// sluice check on the settings of other systems, end to end: what follows from them, in their words.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.hpp"

namespace sluice::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

CommandResult deepspeed(const std::string& json, const std::string& arguments) {
  const Folder folder;
  return sluice("check " + arguments + " --deepspeed " + folder.file("ds.json", json));
}

CommandResult megatron(const std::string& script, const std::string& arguments = "") {
  const Folder folder;
  return sluice("check " + arguments + " --megatron " + folder.file("train.sh", script));
}

TEST(DeepSpeed, AccumulationFollowsFromTheReplicasNotFromTheWorld) {
  const auto check = deepspeed(R"({"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4})",
                               "-S 4 --devices 8 --json");
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_EQ(check.json()["verdict"], "pass");
  EXPECT_EQ(check.json()["microbatches"], 32);
  EXPECT_EQ(check.json()["replicas"], 2);
}

TEST(DeepSpeed, ABatchThatDoesNotAddUpIsToldInItsOwnWords) {
  const auto check = deepspeed(
      R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1})",
      "-S 1");
  EXPECT_EQ(check.code, 2);
  EXPECT_THAT(
      check.err,
      AllOf(HasSubstr("ds.json: train_batch_size: error: batch: train_batch_size = 8: expected "
                      "train_micro_batch_size_per_gpu = 2 times gradient_accumulation_steps = 1, "
                      "which makes 2"),
            HasSubstr("gradient_accumulation_steps = 4"), Not(HasSubstr("microbatches = "))));
}

TEST(DeepSpeed, WarningsAreInItsWordsToo) {
  const auto check = deepspeed(R"({"gradient_accumulation_steps": 1})", "-S 8");
  EXPECT_EQ(check.code, 0);
  EXPECT_THAT(check.out,
              HasSubstr("warning: fill: gradient_accumulation_steps = 1 with stages = 8"));
}

TEST(DeepSpeed, WhatIsNotAboutThePipelineIsListed) {
  const auto check = deepspeed(
      R"({"gradient_accumulation_steps": 8, "fp16": {"enabled": true}, "steps_per_print": 10,
          "pipeline": {"stages": 2, "partition": "best"}, "train_batch_size": "auto"})",
      "");
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_THAT(check.out,
              AllOf(HasSubstr("S=2 stages, M=8 microbatches"), HasSubstr("schedule 1f1b"),
                    HasSubstr("not used here: fp16, pipeline.partition, steps_per_print")));
}

TEST(DeepSpeed, WhatCannotBeReadIsRefused) {
  EXPECT_THAT(deepspeed("{", "-S 2").err, HasSubstr("ds.json: error: not a JSON object"));
  EXPECT_THAT(deepspeed("[1]", "-S 2").err, HasSubstr("not a JSON object"));
  const auto check =
      deepspeed(R"({"train_batch_size": 1.5, "gradient_accumulation_steps": -1})", "-S 2");
  EXPECT_EQ(check.code, 2);
  EXPECT_THAT(check.err, AllOf(HasSubstr("train_batch_size = 1.5: expected a whole number"),
                               HasSubstr("gradient_accumulation_steps = -1")));
  EXPECT_THAT(deepspeed("{}", "-S 2").err, HasSubstr("is missing"));
  EXPECT_THAT(sluice("check --deepspeed missing.json").err,
              HasSubstr("missing.json: error: cannot be read"));
}

TEST(Megatron, WhatHoldsNoneOfItsArgumentsIsRefused) {
  for (const char* noise : {"hello world this is noise\n", "--foo 1 --bar\n", ""}) {
    const auto check = megatron(noise, "-S 4 -M 8");
    EXPECT_EQ(check.code, 2) << noise;
    EXPECT_THAT(check.err, HasSubstr("train.sh: error: expected arguments of Megatron, like "));
  }
}

// The ramp of a well-known training script: 16 stages, 8 replicas, batches 16, 32, ... 1536.
const std::string ramp = R"(
#!/bin/bash
GPUS_PER_NODE=8
NNODES=16
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
MODEL_PARALLEL_ARGS=(
    --tensor-model-parallel-size 1   # inside a node
    --pipeline-model-parallel-size 16
)
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 1536 \
    --rampup-batch-size 16 16 5859375
    --lr 6.0e-5
)
torchrun pretrain.py --num-layers 96 "${TRAINING_ARGS[@]}"
)";

TEST(Megatron, AScriptWithARamp) {
  const auto check = megatron(ramp, "--json");
  EXPECT_EQ(check.code, 0) << check.err;
  const auto json = check.json();
  EXPECT_EQ(json["stages"], 16);
  EXPECT_EQ(json["microbatches"], 192);
  EXPECT_EQ(json["replicas"], 8);
  EXPECT_THAT(json["unused"], Contains("lr"));
  ASSERT_EQ(json["findings"].size(), 1);
  const std::string message = json["findings"][0]["message"];
  // Two microbatches at first: 15/17 of the step is bubble.
  EXPECT_THAT(message,
              AllOf(HasSubstr("rampup-batch-size = 16"), HasSubstr("the first has 2, and 88%"),
                    HasSubstr("the first 8 of 95 batches")));
}

TEST(Megatron, ARampThatTheReplicasDoNotDivide) {
  std::string script = ramp;
  script.replace(script.find("16 16 58"), 5, "16 12");
  const auto check = megatron(script);
  EXPECT_EQ(check.code, 2);
  EXPECT_THAT(check.err, HasSubstr("rampup-batch-size = 28: expected a multiple of "
                                   "micro-batch-size = 1 times replicas = 8"));
}

TEST(Megatron, LayersThatNoStageWouldHave) {
  const auto check = megatron(
      "--num-layers 40 --pipeline-model-parallel-size 8 --num-layers-per-virtual-pipeline-stage 2 "
      "--micro-batch-size 1 --global-batch-size 64 --world-size 8");
  EXPECT_EQ(check.code, 2);
  EXPECT_THAT(check.err, AllOf(HasSubstr("num-layers = 40 in all, found 32"),
                               HasSubstr("8 are on no stage: layers 32 to 39")));
}

TEST(Megatron, LayersThatDoNotSplitEvenly) {
  const auto check = megatron(
      "--num-layers=46 --pipeline-model-parallel-size=4 --micro-batch-size=1 "
      "--global-batch-size=64 "
      "--world-size=4");
  EXPECT_EQ(check.code, 2);
  EXPECT_THAT(check.err, AllOf(HasSubstr("num-layers = 46: expected a multiple of "
                                         "pipeline-model-parallel-size = 4"),
                               HasSubstr("2, 23, 46"), HasSubstr("12 on 2 stages and 11 on 2")));
  const auto own = megatron(
      "--num-layers 46 --pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 10 "
      "--micro-batch-size 1 --global-batch-size 64 --world-size 4");
  EXPECT_EQ(own.code, 0) << own.err;
}

TEST(Megatron, AVirtualPipelineHasSeveralStagesARank) {
  const auto check = megatron(
      "--num-layers 32 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4 "
      "--micro-batch-size 1 --global-batch-size 64 --world-size 8 --tensor-model-parallel-size 2");
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_THAT(check.out, AllOf(HasSubstr("S=8 stages, M=64 microbatches"), HasSubstr("interleaved"),
                               HasSubstr("1 replica of 4 ranks")));
}

TEST(Megatron, WhatIsAssumedIsSaid) {
  const auto check =
      megatron("--pipeline-model-parallel-size 2 --micro-batch-size 2 --global-batch-size 64");
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_THAT(check.out, AllOf(HasSubstr("M=32"), HasSubstr("one replica assumed")));
}

TEST(Megatron, WhatIsNoNumberIsRefused) {
  const auto check = megatron("--pipeline-model-parallel-size $PP --micro-batch-size x");
  EXPECT_EQ(check.code, 2);
  EXPECT_THAT(check.err,
              AllOf(HasSubstr("pipeline-model-parallel-size = $PP: expected a whole number"),
                    HasSubstr("micro-batch-size = x")));
  EXPECT_THAT(megatron("--world-size 6 --pipeline-model-parallel-size 4 --micro-batch-size 1 "
                       "--global-batch-size 8")
                  .err,
              HasSubstr("world-size = 6: expected ranks = 4"));
}

TEST(Foreign, OneSystemAtATime) {
  const auto check = sluice("check --deepspeed a --megatron b");
  EXPECT_EQ(check.code, 2);
  EXPECT_THAT(check.err, HasSubstr("expected one of the two"));
}

}  // namespace
}  // namespace sluice::test
