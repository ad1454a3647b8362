// Stages and microbatches without work or data: what is measured with them is the runtime alone.
#pragma once

#include <cstdint>

#include <asio/awaitable.hpp>

#include <sluice/pipeline.hpp>

namespace sluice {

class EmptyStage final : public Stage<int> {
 public:
  asio::awaitable<int> forward(ActionContext<int>&, int input) override { co_return input; }
  asio::awaitable<Gradients<int>> backward(ActionContext<int>&, int gradient) override {
    co_return Gradients<int>(gradient, 0);
  }
  void accumulate(MicrobatchId, int) override {}
  void prepare_update(std::int64_t) override {}
  void commit() noexcept override {}
  void abort() noexcept override {}
};

class EmptySource final : public BatchSource<int> {
  asio::awaitable<MicrobatchData<int>> next(MicrobatchId) override {
    co_return MicrobatchData<int>(0, 0, 1);
  }
};

}  // namespace sluice
