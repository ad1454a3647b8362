#include <sluice/slots.hpp>

#include <algorithm>

#include <sluice/edges.hpp>

namespace sluice::detail {

Slots::Slots(const Plan& plan) : plan_(plan) {
  if (!plan.slots || *plan.slots >= plan.microbatches) return;  // so many never block
  limit_ = *plan.slots;
  edges_ = std::vector<Edge>(2 * plan.rank_of.size());
  for (Edge& edge : edges_) edge.freed.resize(static_cast<std::size_t>(std::max(limit_, 1)), 0);
}

template <class Visit>
void Slots::each_out(RankId rank, Visit visit) const {
  for (std::size_t s = 0; s < plan_.rank_of.size(); ++s) {
    if (plan_.rank_of[s] != rank) continue;
    visit(edges_[2 * s]);
    visit(edges_[2 * s + 1]);
  }
}

bool Slots::free_for(const Action& action) const {
  if (rendezvous()) {
    bool all_taken = true;
    each_out(plan_.rank_of[action.stage.index()], [&all_taken](const Edge& edge) {
      all_taken = all_taken && edge.taken.load(std::memory_order_acquire) == 0;
    });
    return all_taken;
  }
  return !receiver_of(plan_.rank_of, action) ||
         edges_[place(action)].taken.load(std::memory_order_acquire) < limit_;
}

std::int64_t Slots::take(const Action& action) {
  std::int64_t freed = 0;
  if (rendezvous()) {
    each_out(plan_.rank_of[action.stage.index()],
             [&freed](const Edge& edge) { freed = std::max(freed, edge.freed.front()); });
  }
  if (!receiver_of(plan_.rank_of, action)) return freed;
  Edge& edge = edges_[place(action)];
  freed = std::max(freed, edge.freed[static_cast<std::size_t>(edge.sent++) % edge.freed.size()]);
  edge.taken.fetch_add(1, std::memory_order_relaxed);
  return freed;
}

std::optional<RankId> Slots::release(const Action& action, std::int64_t lamport) {
  const auto from = sender_of(plan_.rank_of, action);
  if (!from) return std::nullopt;
  Edge& edge = edges_[place(Action(*from, action.phase, action.mb))];
  edge.freed[static_cast<std::size_t>(edge.received++) % edge.freed.size()] = lamport;
  // Only who found every slot taken can be waiting for this one.
  if (edge.taken.fetch_sub(1, std::memory_order_release) < limit_) return std::nullopt;
  return plan_.rank_of[from->index()];
}

}  // namespace sluice::detail
