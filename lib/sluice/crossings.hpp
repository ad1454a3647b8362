// Crossings: the outputs of a step that have left their rank and not arrived.
//
// Only where PipelineOptions::carry is set. A ticket is here from the moment in which it is handed over until
// it arrives, or until the rank that was to take it ends; lost ones stay, to be told and then turned
// away. From any thread; nothing is called under its lock.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/ticket.hpp>
#include <sluice/wait_graph.hpp>

namespace sluice::detail {

class Crossings {
 public:
  using Number = std::uint64_t;

  explicit Crossings(int ranks) : closed_(static_cast<std::size_t>(ranks), false) {}

  /// Nothing when `to` takes nothing more. Throws std::bad_alloc and then has not changed.
  std::optional<Number> add(TicketBase& ticket, RankId to);
  /// Takes the ticket out; null when it has been turned away meanwhile.
  TicketBase* arrive(Number number);
  /// It will not arrive. False when it has been turned away meanwhile.
  bool lose(Number number);

  struct Closed {
    TicketBase* tickets = nullptr;  ///< a list through `next`
    int under_way = 0;              ///< of them, not the lost ones
  };
  /// `to` takes nothing more.
  Closed close(RankId to) noexcept;
  /// Takes everything out: a list through `next`.
  TicketBase* give_up() noexcept;

  std::vector<Crossing> now() const;

 private:
  struct Entry {
    TicketBase* ticket = nullptr;
    RankId to;
    bool lost = false;
  };

  mutable std::mutex mutex_;
  std::map<Number, Entry> entries_;
  std::vector<bool> closed_;
  Number next_ = 0;
};

}  // namespace sluice::detail
