// A step for which memory runs out, at every allocation that it makes: it ends with one error and nothing
// applied, or the process ends and says so; it never hangs, and never goes on with half a step.
//
// Each case is a process of its own, whose operator new fails from the n-th allocation of the step on: once,
// or for good.
#include <sluice/pipeline.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include "toy_pipeline.hpp"

namespace {

std::atomic<long> left{-1};         // allocations until one fails; negative: none will
std::atomic<bool> for_good{false};  // and all after it
std::atomic<bool> refused{false};   // one has failed

bool refuse() {
  if (left.load(std::memory_order_relaxed) < 0) return false;
  const long before = left.fetch_sub(1);
  if (before > 0) return false;
  if (for_good) left = 0;
  refused = true;
  return before == 0;
}

}  // namespace

// Not inlined, so that the compiler does not hold one against the other.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* memory = refuse() ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
// Asio's own.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  void* memory = nullptr;
  if (refuse() || posix_memalign(&memory, std::max(alignment, sizeof(void*)), size) != 0) {
    return nullptr;
  }
  return memory;
}

namespace sluice {
namespace {

using test::on;
using test::plan_of;
using test::Toy;
using test::toy_batch;
using test::toy_factory;
using test::ToyHooks;
using test::weights_of;

enum Exit : int {
  unharmed,        ///< the step has succeeded: it made fewer allocations than that
  step_failed,     ///< with an error, nothing was applied, and the next step was right
  call_failed,     ///< the call itself threw, and the next step was right
  half_a_step = 9  ///< anything else
};

int wrong(const char* what) {
  std::fputs(what, stderr);
  return half_a_step;
}

/// In the child: a step during which memory runs out, then one with enough of it.
template <class Run>
int steps(Pipeline<Toy>& pipeline, int after, bool persistent, Run run) {
  const auto before = weights_of(pipeline);
  for_good = persistent;
  left = after;
  int outcome = unharmed;
  try {
    if (run(toy_batch(0, 4))) outcome = step_failed;
  } catch (...) {
    outcome = call_failed;
  }
  left = -1;
  if (outcome == unharmed) {
    // A failure that was swallowed has to have been harmless.
    if (weights_of(pipeline) != test::toy_plain_loop(3, 4, 1)) return wrong("not applied");
    return refused ? call_failed + 1 : unharmed;
  }
  if (weights_of(pipeline) != before) return wrong("half applied");
  if (run(toy_batch(0, 4))) return wrong("the next step failed");
  if (weights_of(pipeline) != test::toy_plain_loop(3, 4, 1))
    return wrong("the next step was wrong");
  return outcome;
}

int child(unsigned threads, int after, bool persistent) {
  if (threads == 0) {
    asio::io_context context(1);
    PipelineOptions options;
    options.executors = single_thread(context.get_executor());
    Pipeline<Toy> pipeline(plan_of(3, 4), toy_factory(std::make_shared<ToyHooks>()), options);
    return steps(pipeline, after, persistent, [&](Batch<Toy> batch) {
      bool completed = false;
      bool failed = false;
      pipeline.async_step(std::move(batch), [&](std::exception_ptr error, StepResult) {
        left = -1;  // the step is over
        completed = true;
        failed = error != nullptr;
      });
      context.restart();  // a call that threw may have left it without work
      for (int thrown = 0; thrown < 100;) {
        try {
          context.run();
          break;
        } catch (const std::bad_alloc&) {  // asio could not post; what is posted is there still
          if (++thrown == 50) left = -1;   // the host has found some memory
        }
      }
      if (!completed) std::_Exit(wrong("never completed"));
      return failed;
    });
  }
  asio::thread_pool pool(threads);
  Pipeline<Toy> pipeline(plan_of(3, 4), toy_factory(std::make_shared<ToyHooks>()),
                         on(pool.get_executor()));
  return steps(pipeline, after, persistent, [&](Batch<Toy> batch) {
    auto step = pipeline.async_step(std::move(batch), asio::use_future);
    try {
      step.get();
      return false;
    } catch (...) {
      left = -1;
      return true;
    }
  });
}

struct Ended {
  int status = 0;
  std::string last_words;
};

Ended run_child(unsigned threads, int after, bool persistent) {
  std::array<int, 2> err{};
  if (pipe(err.data()) != 0) std::abort();
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(err[1], STDERR_FILENO);
    ::alarm(20);  // a hang
    const int code = child(threads, after, persistent);
    std::fflush(stderr);
    std::_Exit(code);
  }
  close(err[1]);
  Ended ended;
  std::array<char, 256> buffer{};
  for (ssize_t n = 0; (n = read(err[0], buffer.data(), buffer.size())) > 0;) {
    ended.last_words.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(err[0]);
  waitpid(pid, &ended.status, 0);
  return ended;
}

class Memory : public testing::TestWithParam<std::pair<unsigned, bool>> {};

TEST_P(Memory, RunsOutAtEveryAllocationOfAStepAndItIsAllOrNothing) {
  const auto [threads, persistent] = GetParam();
  std::map<std::string, int> counts;
  for (int after = 0; after < 2000; ++after) {
    const Ended ended = run_child(threads, after, persistent);
    if (WIFEXITED(ended.status)) {
      const int code = WEXITSTATUS(ended.status);
      if (code == unharmed) {
        EXPECT_GT(after, 10);  // or the test has not tested anything
        for (const auto& [what, count] : counts) RecordProperty(what, count);
        // On a pool asio needs memory for every message, so there is none left to end the step in order.
        if (!persistent) {
          EXPECT_GT(counts["step failed"], 0);
        }
        return;
      }
      ASSERT_NE(code, half_a_step) << after << ended.last_words;
      ++counts[code == step_failed   ? "step failed"
               : code == call_failed ? "call failed"
                                     : "harmless"];
    } else {
      ASSERT_EQ(WTERMSIG(ended.status), SIGABRT) << after << ended.last_words;
      EXPECT_NE(ended.last_words, "") << after;
      ++counts["process ended and said so"];
    }
  }
  FAIL() << "no step had enough memory";
}

INSTANTIATE_TEST_SUITE_P(, Memory,
                         testing::Values(std::pair(0U, false), std::pair(0U, true),
                                         std::pair(2U, false), std::pair(2U, true)));

}  // namespace
}  // namespace sluice
