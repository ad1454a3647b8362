// A small run that is recorded by the command, for the end-to-end tests of replay and show.
#pragma once

#include <string>

#include "small_run.hpp"

namespace sluice::test {

class RecordedSmallRun : public SmallRun {
 protected:
  std::string recording() const { return path("run.slrec"); }
  CommandResult record(const std::string& arguments = "") const {
    return train("--record " + recording() + ' ' + arguments);
  }
  CommandResult replay(const std::string& arguments = "") const {
    return sluice(fmt::format("replay {} {}", recording(), arguments));
  }
  CommandResult show(const std::string& arguments = "") const {
    return sluice(fmt::format("show {} {}", recording(), arguments));
  }
};

}  // namespace sluice::test
