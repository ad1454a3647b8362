// A log to plant mistakes in: the one a plan expects, changed record by record.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <sluice/log.hpp>
#include <sluice/plan.hpp>

namespace sluice::test {

inline PlanConfig shape(int stages, int microbatches, ScheduleName name = ScheduleName::drain) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.schedule = name;
  return config;
}

inline PlanConfig depth(PlanConfig config, int drain_depth) {
  config.drain_depth = drain_depth;
  return config;
}

class LogBuilder {
 public:
  using Event = LogRecord::Event;

  explicit LogBuilder(const PlanConfig& config)
      : records_(expected_log(derive_plan(config).timeline)) {}
  explicit LogBuilder(std::vector<LogRecord> records) : records_(std::move(records)) {}

  /// Where `2F5 enter` stands.
  std::size_t at(std::string_view what) const {
    const auto action = parse_action(what.substr(0, what.find(' ')));
    const Event event = what.ends_with("enter") ? Event::enter : Event::exit;
    const auto found = std::find_if(records_.begin(), records_.end(), [&](const LogRecord& record) {
      return record.action == *action && record.event == event;
    });
    EXPECT_NE(found, records_.end()) << what;
    return static_cast<std::size_t>(found - records_.begin());
  }
  std::int64_t seq(std::string_view what) const { return records_[at(what)].seq; }

  // Each of these leaves the numbers gap-free, as the program that wrote them would have.
  LogBuilder& drop(std::string_view what) {
    records_.erase(records_.begin() + static_cast<std::ptrdiff_t>(at(what)));
    return renumber();
  }
  LogBuilder& drop_action(std::string_view action) {
    drop(std::string(action) + " enter");
    return drop(std::string(action) + " exit");
  }
  template <class Predicate>
  LogBuilder& drop_if(Predicate predicate) {
    std::erase_if(records_, predicate);
    return renumber();
  }
  LogBuilder& swap(std::string_view a, std::string_view b) {
    std::swap(records_[at(a)], records_[at(b)]);
    return renumber();
  }
  LogBuilder& move_before(std::string_view what, std::string_view target) {
    const LogRecord record = records_[at(what)];
    records_.erase(records_.begin() + static_cast<std::ptrdiff_t>(at(what)));
    records_.insert(records_.begin() + static_cast<std::ptrdiff_t>(at(target)), record);
    return renumber();
  }
  LogBuilder& move_action_before(std::string_view action, std::string_view target) {
    move_before(std::string(action) + " enter", target);
    return move_before(std::string(action) + " exit", target);
  }
  LogBuilder& repeat(std::string_view what, std::string_view before) {
    const LogRecord record = records_[at(what)];
    records_.insert(records_.begin() + static_cast<std::ptrdiff_t>(at(before)), record);
    return renumber();
  }
  template <class Change>
  LogBuilder& change(std::string_view what, Change change) {
    change(records_[at(what)]);
    return *this;
  }
  template <class Change>
  LogBuilder& change_all(Change change) {
    for (LogRecord& record : records_) change(record);
    return *this;
  }
  LogBuilder& append(const LogBuilder& other) {
    records_.insert(records_.end(), other.records_.begin(), other.records_.end());
    return *this;
  }
  LogBuilder& step(std::int64_t number) {
    return change_all([number](LogRecord& record) { record.step = number; });
  }
  LogBuilder& cut_after(std::string_view what) {
    records_.resize(at(what) + 1);
    return *this;
  }
  LogBuilder& renumber() {
    std::int64_t seq = 0;
    for (LogRecord& record : records_) record.seq = ++seq;
    return *this;
  }

  // These leave a hole in the numbers.
  LogBuilder& lose(std::string_view what) {
    records_.erase(records_.begin() + static_cast<std::ptrdiff_t>(at(what)));
    return *this;
  }
  template <class Predicate>
  LogBuilder& lose_if(Predicate predicate) {
    std::erase_if(records_, predicate);
    return *this;
  }

  std::vector<LogRecord>& records() { return records_; }
  const std::vector<LogRecord>& records() const { return records_; }
  std::string text() const {
    std::string text;
    for (const LogRecord& record : records_) text += to_line(record) + '\n';
    return text;
  }

 private:
  std::vector<LogRecord> records_;
};

}  // namespace sluice::test
