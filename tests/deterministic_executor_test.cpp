// The deterministic executor with coroutines that are no pipelines: order, virtual time, what is stuck,
// workers that stop, and the same again for the same picks.
#include <array>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/bind_executor.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <sluice/replay/deterministic_executor.hpp>

namespace sluice::replay {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

asio::awaitable<void> say_twice(std::shared_ptr<std::string> said, char letter) {
  *said += letter;
  co_await asio::post(asio::use_awaitable);
  *said += letter;
}

std::string order_of(DeterministicContext::Pick pick) {
  DeterministicContext context(std::move(pick));
  auto said = std::make_shared<std::string>();
  context.spawn("a", say_twice(said, 'a'));
  context.spawn("b", say_twice(said, 'b'));
  context.run();
  return *said;
}

TEST(DeterministicExecutor, FirstInFirstOutUnlessSomeoneSaysOtherwise) {
  EXPECT_EQ(order_of({}), "abab");
  const std::array<std::uint8_t, 2> bytes{0, 1};
  EXPECT_EQ(order_of(byte_picks(bytes)), order_of(byte_picks(bytes)));
}

TEST(DeterministicExecutor, SeedsReachEveryOrderAndEachIsRepeatable) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    orders.insert(order_of(seeded_picks(seed)));
    EXPECT_EQ(order_of(seeded_picks(seed)), order_of(seeded_picks(seed)));
  }
  EXPECT_EQ(orders.size(), 6);  // two letters twice each
}

// What a strand promises on a pool.
TEST(DeterministicExecutor, ASerialExecutorKeepsItsOrder) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    DeterministicContext context(seeded_picks(seed));
    auto serial = context.make_serial_executor();
    std::vector<int> ran;
    for (int i = 0; i < 5; ++i) asio::post(serial, [&ran, i] { ran.push_back(i); });
    asio::post(context.get_executor(), [&ran] { ran.push_back(9); });
    EXPECT_THAT(ran, IsEmpty());  // never inline
    context.run();
    std::erase(ran, 9);
    EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3, 4));
  }
}

asio::awaitable<void> sleep(DeterministicContext* context, std::int64_t ns,
                            std::vector<std::int64_t>* woken) {
  co_await context->async_sleep(ns, asio::use_awaitable);
  woken->push_back(context->now_ns());
}

TEST(DeterministicExecutor, TimeIsVirtualAndJumps) {
  DeterministicContext context;
  std::vector<std::int64_t> woken;
  constexpr std::int64_t hour = 3'600'000'000'000;
  context.spawn("late", sleep(&context, hour, &woken));
  context.spawn("early", sleep(&context, 5, &woken));
  context.run();
  EXPECT_THAT(woken, ElementsAre(5, hour));
  EXPECT_THAT(context.unfinished(), IsEmpty());
}

TEST(DeterministicExecutor, TimersMayComeFirstWhenTheyCompete) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    DeterministicContext context(seeded_picks(seed));
    context.let_timers_compete(true);
    std::string order;
    context.call_after(1000, [&order] { order += 't'; });
    asio::post(context.get_executor(), [&order] { order += 'w'; });
    context.run();
    orders.insert(order);
  }
  EXPECT_THAT(orders, ElementsAre("tw", "wt"));
}

asio::awaitable<void> wait_for_ever() {
  auto forget = [](auto handler) { static_cast<void>(handler); };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(forget, asio::use_awaitable);
}

TEST(DeterministicExecutor, WhatIsStuckIsNamed) {
  DeterministicContext context;
  auto said = std::make_shared<std::string>();
  context.spawn("ends", say_twice(said, 'a'));
  context.spawn("never", wait_for_ever());
  context.run();
  EXPECT_TRUE(context.idle());
  EXPECT_THAT(context.unfinished(), ElementsAre("never"));
}

TEST(DeterministicExecutor, AStoppedWorkerHoldsItsWorkUntilItIsBack) {
  DeterministicContext context;
  auto worker = context.make_serial_executor();
  std::string ran;
  for (const char letter : {'a', 'b', 'c'}) asio::post(worker, [&ran, letter] { ran += letter; });
  EXPECT_EQ(context.run(1), 1);
  context.stop_lane(worker.lane());
  EXPECT_EQ(context.run(), 0);
  asio::post(worker, [&ran] { ran += 'd'; });
  context.run();
  EXPECT_EQ(ran, "a");
  context.resume_lane(worker.lane());
  context.run();
  EXPECT_EQ(ran, "abcd");
}

asio::awaitable<void> fail() {
  throw std::runtime_error("planted");
  co_return;
}

TEST(DeterministicExecutor, WhatATaskThrowsLeavesRunWhichMayGoOn) {
  DeterministicContext context;
  auto said = std::make_shared<std::string>();
  context.spawn("thrower", fail());
  context.spawn("other", say_twice(said, 'a'));
  EXPECT_THROW(context.run(), std::runtime_error);
  context.run();
  EXPECT_EQ(*said, "aa");
}

TEST(DeterministicExecutor, WhatIsLeftIsDroppedWithTheContext) {
  auto alive = std::make_shared<std::string>();
  {
    DeterministicContext context;
    auto lane = context.make_serial_executor();
    for (int i = 0; i < 100'000; ++i) asio::post(lane, [alive] {});
    context.spawn("sleeper", say_twice(alive, 'a'));
    context.call_after(1, [alive] {});
    EXPECT_GT(alive.use_count(), 100'000);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(DeterministicExecutor, ChoicesThatAreNotAboutOrderAreTheStrategysToo) {
  DeterministicContext plain;
  EXPECT_EQ(plain.choose(3), 0);
  std::set<std::size_t> chosen;
  DeterministicContext context(seeded_picks(1));
  for (int i = 0; i < 50; ++i) chosen.insert(context.choose(3));
  EXPECT_EQ(chosen.size(), 3);
}

}  // namespace
}  // namespace sluice::replay
