// The runtime for one type of values, compiled once instead of in every file that runs its steps.
//
// For embedders with many such files; nothing else changes. In the header of the type, behind it and its
// WireTraits, outside any namespace:
//   SLUICE_COMPILED_ONCE(extern template, mine::Value)
// and in one file that includes that header:
//   SLUICE_COMPILED_ONCE(template, mine::Value)
#pragma once

#include <functional>
#include <memory>

#include <asio/awaitable.hpp>

#include <sluice/pipeline.hpp>

#define SLUICE_COMPILED_ONCE(instantiate, ...)                                                     \
  namespace sluice::detail {                                                                       \
  instantiate asio::awaitable<void> intake<__VA_ARGS__>(Task<__VA_ARGS__>);                        \
  instantiate asio::awaitable<void> microbatch<__VA_ARGS__>(Task<__VA_ARGS__>, MicrobatchId,       \
                                                            MicrobatchData<__VA_ARGS__>);          \
  instantiate asio::awaitable<void> rank_loop<__VA_ARGS__>(Task<__VA_ARGS__>, Rank<__VA_ARGS__>&); \
  instantiate asio::awaitable<StepResult> train<__VA_ARGS__>(                                      \
      std::shared_ptr<PipelineState<__VA_ARGS__>>, Batch<__VA_ARGS__>,                             \
      std::shared_ptr<StopRequest>);                                                               \
  instantiate asio::awaitable<StepResult> evaluate<__VA_ARGS__>(                                   \
      std::shared_ptr<PipelineState<__VA_ARGS__>>, Batch<__VA_ARGS__>,                             \
      std::function<void(MicrobatchId, __VA_ARGS__)>, std::shared_ptr<StopRequest>);               \
  }
