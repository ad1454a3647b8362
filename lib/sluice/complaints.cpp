#include <sluice/complaints.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr std::array<std::string_view, log_rules> names{"seq-order",
                                                        "seq-gap",
                                                        "lost-records",
                                                        "unknown-id",
                                                        "stage-silent",
                                                        "first-seen-backward",
                                                        "mb-skipped",
                                                        "mb-repeated",
                                                        "exit-without-enter",
                                                        "never-exits",
                                                        "forward-order",
                                                        "backward-order",
                                                        "backward-before-forward",
                                                        "rank-overlap",
                                                        "mb-order",
                                                        "gate-early",
                                                        "over-credit",
                                                        "plan-order",
                                                        "truncated"};

}  // namespace

std::string_view to_string(LogRule rule) { return names[static_cast<std::size_t>(rule)]; }

std::string to_string(const Action& action, LogRecord::Event event) {
  return fmt::format("{} {}", to_string(action),
                     event == LogRecord::Event::enter ? "enter" : "exit");
}

std::string to_string(const LastGood& last) {
  if (!last.there) return "none";
  return fmt::format("seq {} {}", last.seq, to_string(last.action, last.event));
}

bool Complaints::news(LogRule rule, const LogLine& at) const {
  const auto& kept = of_[static_cast<std::size_t>(rule)];
  return !kept || at.record.seq < kept->at.record.seq;
}

void Complaints::add(Complaint complaint) {
  auto& kept = of_[static_cast<std::size_t>(complaint.rule)];
  if (!kept) {
    kept = std::move(complaint);
    return;
  }
  const std::int64_t count = kept->count + complaint.count;
  if (complaint.at.record.seq < kept->at.record.seq) kept = std::move(complaint);
  kept->count = count;
}

std::size_t Complaints::rules() const {
  return static_cast<std::size_t>(
      std::count_if(of_.begin(), of_.end(), [](const auto& kept) { return kept.has_value(); }));
}

std::vector<Complaint> Complaints::sorted() const {
  std::vector<Complaint> result;
  for (const auto& kept : of_) {
    if (kept) result.push_back(*kept);
  }
  std::sort(result.begin(), result.end(), [](const Complaint& a, const Complaint& b) {
    return std::make_tuple(a.at.record.seq, a.rule) < std::make_tuple(b.at.record.seq, b.rule);
  });
  return result;
}

}  // namespace sluice
