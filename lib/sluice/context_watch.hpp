// Context watch: tells pipelines that the execution context under them is about to go.
//
// A host may destroy its io_context or thread_pool while a step sleeps in it. The sleeping coroutines
// hold the step, and the step holds them: without a word from the context they would stay for ever,
// and a later call into the pipeline would reach a context that is no more. Such a call throws, and names the
// order in which to destroy them; a host that makes none has done no harm, so nothing is aborted.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <asio/execution_context.hpp>

namespace sluice::detail {

class ContextWatch final : public asio::execution_context::service {
 public:
  using Goodbye = std::function<void()>;
  static inline asio::execution_context::id id;

  explicit ContextWatch(asio::execution_context& context) : service(context) {}

  /// `goodbye` is called once, when the context shuts down and none of its threads runs any more;
  /// unless its owner has gone before.
  void add(const std::shared_ptr<Goodbye>& goodbye) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(goodbyes_, [](const auto& each) { return each.expired(); });
    goodbyes_.push_back(goodbye);
  }

 private:
  void shutdown() override {
    for (const auto& each : std::exchange(goodbyes_, {})) {
      if (const auto goodbye = each.lock()) (*goodbye)();
    }
  }

  std::mutex mutex_;
  std::vector<std::weak_ptr<Goodbye>> goodbyes_;
};

}  // namespace sluice::detail
