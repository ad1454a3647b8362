// Delivery: what comes between the rank that makes an output and the rank that takes it.
//
// Inside a process an output is handed over in memory, at once. PipelineOptions::carry puts something in
// between: a link time, for a run in virtual time; a fault, for a test; a transport of one's own. It is called
// on the executor of the rank that made the output, in the middle of its turn, and calls the delivery when
// the output has arrived, from any thread, then or later.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include <sluice/ids.hpp>

namespace sluice {

/// An output under way. Copies are of the same output. Called twice while its step runs, it ends the step
/// with an error; when the last copy goes uncalled the output is lost, and who waits for it is told as
/// stuck. May outlive its step, and then does nothing.
class Delivery {
 public:
  /// The step's side of it.
  class Parcel {
   public:
    virtual ~Parcel() = default;
    virtual void arrive() = 0;
  };

  explicit Delivery(std::shared_ptr<Parcel> parcel) : parcel_(std::move(parcel)) {}
  void operator()() const { parcel_->arrive(); }

 private:
  std::shared_ptr<Parcel> parcel_;
};

/// `action`: the one that takes the output.
using Carry = std::function<void(const Action& action, Delivery delivery)>;

}  // namespace sluice
