// Alarms: a deadline for one step, and a watchdog that reports a step without progress.
//
// Both are off unless the embedder asks. The deadline uses a timer of the embedder's executor. The
// watchdog must speak even when stage functions block every thread that the executor has, so it owns
// a thread, the only one that sluice ever starts, and only when asked.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <asio/any_io_executor.hpp>

namespace sluice {

/// Calls back once after a while, unless it is cancelled or destroyed first.
class Alarm {
 public:
  virtual ~Alarm() = default;
  /// `ring` is called on the executor that the alarm was made for.
  virtual void start(std::chrono::nanoseconds after, std::function<void()> ring) = 0;
  virtual void cancel() = 0;
};

/// Makes an alarm for an executor.
using AlarmFactory = std::function<std::unique_ptr<Alarm>(const asio::any_io_executor&)>;

/// An alarm on asio::steady_timer. Not for the deterministic executor, whose time is virtual.
std::unique_ptr<Alarm> steady_alarm(const asio::any_io_executor& executor);

/// Looks every `period` whether anything has moved; if not, says where everyone stands.
class Watchdog {
 public:
  /// `progress`: a number that changes with every action that starts or ends; absent steps give the
  /// same number twice only when nothing runs, for which `report` returns an empty string. `on_stall`
  /// receives the report, on the watchdog's thread, and must not throw.
  Watchdog(std::chrono::nanoseconds period, std::function<std::int64_t()> progress,
           std::function<std::string()> report, std::function<void(const std::string&)> on_stall);
  /// Ends the thread; waits at most for an `on_stall` that is under way. In a child process, into which the
  /// thread has not come along, leaves all as it is.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct Watch;
  std::shared_ptr<Watch> watch_;  // shared with its thread
};

}  // namespace sluice
