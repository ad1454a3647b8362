#include <sluice/crossings.hpp>

namespace sluice::detail {

std::optional<Crossings::Number> Crossings::add(TicketBase& ticket, RankId to) {
  const std::scoped_lock lock(mutex_);
  if (closed_[to.index()]) return std::nullopt;
  entries_.emplace(next_, Entry{&ticket, to});
  return next_++;
}

TicketBase* Crossings::arrive(Number number) {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(number);
  if (found == entries_.end()) return nullptr;
  TicketBase* const ticket = found->second.ticket;
  entries_.erase(found);
  return ticket;
}

bool Crossings::lose(Number number) {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(number);
  if (found == entries_.end()) return false;
  found->second.lost = true;
  return true;
}

Crossings::Closed Crossings::close(RankId to) noexcept {
  const std::scoped_lock lock(mutex_);
  closed_[to.index()] = true;
  Closed closed;
  for (auto at = entries_.begin(); at != entries_.end();) {
    const Entry& entry = at->second;
    if (entry.to != to) {
      ++at;
      continue;
    }
    entry.ticket->next = closed.tickets;
    closed.tickets = entry.ticket;
    closed.under_way += entry.lost ? 0 : 1;
    at = entries_.erase(at);
  }
  return closed;
}

TicketBase* Crossings::give_up() noexcept {
  const std::scoped_lock lock(mutex_);
  TicketBase* all = nullptr;
  for (auto& [number, entry] : entries_) {
    entry.ticket->next = all;
    all = entry.ticket;
  }
  entries_.clear();
  return all;
}

std::vector<Crossing> Crossings::now() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Crossing> crossings;
  crossings.reserve(entries_.size());
  for (const auto& [number, entry] : entries_) {
    crossings.push_back(Crossing{entry.ticket->action, entry.lost});
  }
  return crossings;
}

}  // namespace sluice::detail
