// A policy in any language: a child process that is asked, a JSON object a line, what a rank runs next.
//
// To the child, on its standard input:
//   {"kind":"begin","rank":0,"plan":{"stages":4,"ranks":4,"microbatches":8,"drain_depth":3,
//    "credits":[4,3,2,1],"gate":1,"rank_of":[0,1,2,3]}}     before each step, for each rank
//   {"kind":"choose","rank":0,"held":2,"ready":["0F2","0B0"]}       the only one to be answered
//   {"kind":"enter","rank":0,"action":"0F2"}     likewise exit, failed: what the rank has done
// From it, on its standard output, a line for each `choose`: {"action":"0F2"}, or {"action":null} to wait
// for an arrival. Its standard error is the command's. It ends when its input does.
//
// One child serves all ranks, one question at a time, so a run waits for it: this is for trying ideas
// out. May be asked from any thread. A child that dies, stays silent or answers anything else ends the
// step with an error that shows its command, the question and its answer; before that, standard error says
// that it is waited for. When this process ends, in whatever way, its children end too.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <sluice/policy.hpp>

namespace sluice::tools {

class PolicyChild final : public Policy {
 public:
  /// Starts `command` through the shell. `patience`: how long an answer may take, start included.
  /// Throws std::system_error when no process can be started.
  explicit PolicyChild(const std::string& command,
                       std::chrono::milliseconds patience = std::chrono::seconds(60));
  /// Closes the child's input, and ends it and what it has started where that is not enough.
  ~PolicyChild() override;

  std::unique_ptr<RankPolicy> for_rank(const Plan& plan, RankId rank) override;

 private:
  class Conversation;
  class OfRank;
  std::shared_ptr<Conversation> conversation_;
};

}  // namespace sluice::tools
