// Coroutines of your own, no pipeline at all, on the deterministic executor: a mailbox with room for one
// letter, and the wake-up that it loses in one order of many.
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <sluice/replay/explorer.hpp>

using namespace sluice;

class Mailbox {
 public:
  /// `careless`: looks first, lets others go, and sleeps then, whatever has happened meanwhile.
  explicit Mailbox(bool careless) : careless_(careless) {}

  asio::awaitable<void> put(int letter) {
    while (full_) co_await changed();
    letter_ = letter;
    full_ = true;
    wake();
  }
  asio::awaitable<int> take() {
    while (!full_) co_await changed();
    full_ = false;
    wake();
    co_return letter_;
  }

 private:
  /// The one place where a coroutine waits for another; `wake` posts it to its own executor.
  auto asleep() {
    return asio::async_initiate<const asio::use_awaitable_t<>, void()>(
        [this](auto handler) {
          auto shared = std::make_shared<decltype(handler)>(std::move(handler));
          sleeper_ = [shared] { asio::post(std::move(*shared)); };
        },
        asio::use_awaitable);
  }
  asio::awaitable<void> changed() {
    if (careless_) co_await asio::post(asio::use_awaitable);
    co_await asleep();
  }
  void wake() {
    if (const auto sleeper = std::exchange(sleeper_, nullptr)) sleeper();
  }

  bool careless_;
  bool full_ = false;
  int letter_ = 0;
  std::function<void()> sleeper_;
};

// The world below outlives its tasks.
asio::awaitable<void> write_letters(Mailbox& box) {
  for (int letter = 1; letter <= 3; ++letter) co_await box.put(letter);
}

asio::awaitable<void> read_letters(Mailbox& box, int& sum) {
  for (int i = 0; i < 3; ++i) {
    const int letter = co_await box.take();
    sum += letter;
  }
}

struct World {
  explicit World(bool careless) : box(careless) {}

  Mailbox box;
  int sum = 0;
};

/// What is explored: who runs, and what must hold in the end. A new world for every run.
replay::Program mail(bool careless) {
  return replay::program_of([careless](replay::DeterministicContext& context) {
    auto world = std::make_shared<World>(careless);
    context.spawn("writer", write_letters(world->box));
    context.spawn("reader", read_letters(world->box, world->sum));
    return [world] { return world->sum == 6 ? std::string() : std::string("a letter was lost"); };
  });
}

TEST(Mailbox, DeliversInEveryOrder) {
  replay::ExploreOptions options;
  options.runs = 1000;
  EXPECT_THAT(replay::explore(mail(false), options).failures, testing::IsEmpty());
}

TEST(Mailbox, TheLostWakeUpIsFoundAndMadeSmall) {
  const auto result = replay::explore(mail(true), {});
  ASSERT_EQ(result.failures.size(), 1);
  EXPECT_EQ(result.failures.front().kind, "stuck");
  const auto least = replay::minimise(mail(true), result.failures.front());
  ASSERT_TRUE(least);
  EXPECT_EQ(least->reproduced, 10);
  EXPECT_LE(least->deviations.size(), 2);
  EXPECT_THAT(least->text, testing::HasSubstr("not ended: "));
}
