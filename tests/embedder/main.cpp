// The smallest program that embeds an installed sluice: its headers, and Asio as it was compiled.
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>
#include <sluice/ids.hpp>

static asio::awaitable<sluice::StageId> next(sluice::StageId stage) { co_return stage.next(); }

int main() {
  asio::thread_pool pool(1);
  const auto stage = asio::co_spawn(pool, next(sluice::StageId(1)), asio::use_future).get();
  return stage == sluice::StageId(2) ? 0 : 1;
}
