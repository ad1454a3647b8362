#include <sluice/probe.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <sluice/messages.hpp>

namespace sluice::detail {

void Probe::ask(RankId rank, const asio::any_io_executor& executor) {
  if ((*open_)[rank.index()].exchange(true, std::memory_order_relaxed)) return;
  send(executor,
       [open = open_, rank] { (*open)[rank.index()].store(false, std::memory_order_relaxed); });
}

bool Probe::answered(RankId rank) const {
  return !(*open_)[rank.index()].load(std::memory_order_relaxed);
}

std::string to_string(const Probe& probe, std::span<const RankPosition> positions) {
  std::vector<std::string> holding;
  std::vector<std::string> suspended;
  bool anybody = false;
  for (const RankPosition& at : positions) {
    const bool answered = probe.answered(at.rank);
    anybody = anybody || answered;
    if (at.running) (answered ? suspended : holding).push_back(to_string(at.last));
  }
  std::string text;
  if (!anybody && holding.empty()) {
    text += "\n  no rank answers: nobody runs their executor, or the host holds every thread of it";
  } else if (!anybody) {
    text += fmt::format("\n  no rank answers: every thread of their executor is held, by {}",
                        fmt::join(holding, ", "));
  } else if (!holding.empty()) {
    text += fmt::format("\n  holding a thread, computing or blocked: {}", fmt::join(holding, ", "));
  }
  if (!suspended.empty()) {
    text += fmt::format("\n  suspended, until something outside of sluice happens: {}",
                        fmt::join(suspended, ", "));
  }
  if (!holding.empty()) {
    text +=
        "\n  a stage function must not block its thread on what another stage does, nor hold a "
        "lock "
        "while it is suspended";
  }
  return text;
}

}  // namespace sluice::detail
