#include <sluice/ticket.hpp>

#include <atomic>
#include <cstdint>
#include <latch>
#include <semaphore>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sluice/random.hpp>

namespace sluice::detail {
namespace {

MicrobatchId mb_of(const TicketBase* ticket) { return ticket->action.mb; }

TEST(Inbox, TakesLatestFirstAndOnlyOnce) {
  Inbox inbox;
  std::vector<TicketBase> tickets(3);
  for (int i = 0; i < 3; ++i) {
    tickets[static_cast<std::size_t>(i)].action.mb = MicrobatchId(i);
    EXPECT_EQ(inbox.file(tickets[static_cast<std::size_t>(i)]), Inbox::Filed::joined);
  }
  TicketBase* taken = inbox.take();
  for (int expected : {2, 1, 0}) {
    ASSERT_NE(taken, nullptr);
    EXPECT_EQ(mb_of(taken), MicrobatchId(expected));
    taken = taken->next;
  }
  EXPECT_EQ(taken, nullptr);
  EXPECT_EQ(inbox.take(), nullptr);
}

TEST(Inbox, OneFilerAndNoOtherWakesASleeper) {
  Inbox inbox;
  TicketBase first;
  TicketBase second;
  ASSERT_TRUE(inbox.park());
  EXPECT_EQ(inbox.file(first), Inbox::Filed::found_parked);
  EXPECT_EQ(inbox.file(second), Inbox::Filed::joined);
  EXPECT_EQ(inbox.take(), &second);
}

TEST(Inbox, WhoeverHasSomethingToLookAtDoesNotSleep) {
  Inbox inbox;
  TicketBase ticket;
  inbox.file(ticket);
  EXPECT_FALSE(inbox.park());
  inbox.take();
  EXPECT_EQ(inbox.nudge(), Inbox::Filed::joined);
  EXPECT_FALSE(inbox.park());
  EXPECT_EQ(inbox.take(), nullptr);  // a nudge brings nothing
  EXPECT_TRUE(inbox.park());
  EXPECT_EQ(inbox.nudge(), Inbox::Filed::found_parked);
}

TEST(Inbox, AClosedInboxRefusesAndGivesBackWhatItHad) {
  Inbox inbox;
  TicketBase ticket;
  TicketBase late;
  inbox.file(ticket);
  EXPECT_EQ(inbox.close(), &ticket);
  EXPECT_EQ(inbox.file(late), Inbox::Filed::closed);
  EXPECT_EQ(inbox.nudge(), Inbox::Filed::closed);
}

TEST(Inbox, OfFiftyFilersEachIsGivenBackOrRefusedWhenItCloses) {
  for (int run = 0; run < 20; ++run) {
    Inbox inbox;
    std::vector<TicketBase> tickets(50);
    std::latch ready(51);
    std::atomic<int> refused{0};
    std::vector<std::thread> filers;
    for (TicketBase& ticket : tickets) {
      filers.emplace_back([&inbox, &ready, &refused, &ticket] {
        ready.arrive_and_wait();
        if (inbox.file(ticket) == Inbox::Filed::closed) ++refused;
      });
    }
    ready.arrive_and_wait();
    int given_back = 0;
    for (TicketBase* ticket = inbox.close(); ticket != nullptr; ticket = ticket->next) ++given_back;
    for (std::thread& filer : filers) filer.join();
    EXPECT_EQ(given_back + refused, 50);
  }
}

// A million hand-overs between two threads, with random pauses where a hand-over of two steps would lose
// its wake-up: between the look that finds nothing and the sleep, and between filing and waking.
TEST(Inbox, NoHandOverIsEverLost) {
  constexpr int hand_overs = 1'000'000;
  Inbox inbox;
  std::counting_semaphore<> wake(0);
  std::counting_semaphore<> free(
      64);  // bounds how far the filer runs ahead, so that both sleep often
  std::vector<TicketBase> tickets(64);

  const auto pause = [](KeyedRandom& random) {
    if (random.below(4) != 0) return;
    for (std::uint32_t spin = random.below(200); spin > 0; --spin) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
  };

  std::thread filer([&] {
    KeyedRandom random(1, 0, "filer", 0, "pause");
    for (int i = 0; i < hand_overs; ++i) {
      free.acquire();
      TicketBase& ticket = tickets[static_cast<std::size_t>(i % 64)];
      ticket.action.mb = MicrobatchId(i);
      pause(random);
      const Inbox::Filed filed = inbox.file(ticket);
      pause(random);
      if (filed == Inbox::Filed::found_parked) wake.release();
    }
  });

  KeyedRandom random(1, 0, "taker", 0, "pause");
  std::int64_t sum = 0;
  int taken = 0;
  int sleeps = 0;
  while (taken < hand_overs) {
    TicketBase* ticket = inbox.take();
    if (ticket == nullptr) {
      pause(random);
      if (inbox.park()) {
        ++sleeps;
        wake.acquire();
      }
      continue;
    }
    int batch = 0;
    for (; ticket != nullptr; ticket = ticket->next) {
      sum += mb_of(ticket).value;
      ++batch;
    }
    taken += batch;
    free.release(batch);  // the filer may use these again from here on
  }
  filer.join();
  EXPECT_EQ(sum, std::int64_t{hand_overs} * (hand_overs - 1) / 2);
  EXPECT_GT(sleeps, 100);  // or the test has not tested anything
}

}  // namespace
}  // namespace sluice::detail
