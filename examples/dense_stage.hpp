// A stage in plain C++: one dense layer of a small perceptron that learns one number from several.
//
// What the other examples train. Swap it for your own: a value that moves from stage to stage, and a
// stage that knows its forward, its backward, and what to do with the gradient.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <sluice/stage.hpp>

/// Row by row; a row is a sample. Has constructors because coroutines take it by value.
struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<float> values;

  Matrix() = default;
  Matrix(std::size_t of_rows, std::size_t of_columns)
      : rows(of_rows), columns(of_columns), values(of_rows * of_columns) {}

  std::span<float> row(std::size_t r) { return std::span(values).subspan(r * columns, columns); }
  std::span<const float> row(std::size_t r) const {
    return std::span(values).subspan(r * columns, columns);
  }
};

/// With this, PipelineOptions::check_finite finds the stage where a NaN first appears.
template <>
struct sluice::WireTraits<Matrix> {
  static constexpr bool hashes = false;
  static std::uint64_t hash(const Matrix&) { return 0; }
  static bool finite(const Matrix& matrix) {
    return std::ranges::all_of(matrix.values, [](float value) { return std::isfinite(value); });
  }
};

/// outputs = tanh(inputs * weights + bias); the last stage is without tanh and has the loss, half the
/// squared distance to the target.
class DenseStage final : public sluice::Stage<Matrix> {
 public:
  struct Options {
    float learning_rate = 0.1F;
    /// An action suspends for this long, as it would to wait for a device.
    std::chrono::duration<double> device_time{0};
  };

  DenseStage(const sluice::StageContext& context, std::size_t inputs, std::size_t outputs,
             Options options)
      : options_(options),
        last_(context.stage.value == context.stages - 1),
        weights_(inputs + 1, outputs),  // the last row is the bias, and starts as 0
        gradient_(inputs + 1, outputs) {
    // Keyed by the parameter's name, so that another cut into stages would start the same.
    const std::string path = fmt::format("layers.{}.weight", context.stage.value);
    sluice::KeyedRandom random(context.seed, 0, path, 0, "init");
    const float scale = std::sqrt(3.0F / static_cast<float>(inputs));
    for (std::size_t i = 0; i < inputs; ++i) {
      for (float& weight : weights_.row(i)) weight = scale * (2 * random.uniform() - 1);
    }
  }

  asio::awaitable<Matrix> forward(sluice::ActionContext<Matrix>& context, Matrix input) override {
    co_await wait_for_device();
    Matrix output(input.rows, weights_.columns);
    for (std::size_t r = 0; r < input.rows; ++r) {
      std::ranges::copy(weights_.row(input.columns), output.row(r).begin());
      for (std::size_t i = 0; i < input.columns; ++i) {
        for (std::size_t o = 0; o < output.columns; ++o) {
          output.row(r)[o] += input.row(r)[i] * weights_.row(i)[o];
        }
      }
    }
    if (!last_) {
      for (float& value : output.values) value = std::tanh(value);
    } else if (context.target != nullptr) {
      output = distance(context, std::move(output));
    }
    if (context.training) kept_.insert_or_assign(context.action.mb, Kept(std::move(input), output));
    co_return output;
  }

  asio::awaitable<sluice::Gradients<Matrix>> backward(sluice::ActionContext<Matrix>& context,
                                                      Matrix gradient) override {
    co_await wait_for_device();
    const auto node = kept_.extract(context.action.mb);
    const Matrix& input = node.mapped().input;
    const Matrix& output = node.mapped().output;
    Matrix of_input(input.rows, input.columns);
    Matrix of_weights(weights_.rows, weights_.columns);
    for (std::size_t r = 0; r < input.rows; ++r) {
      for (std::size_t o = 0; o < output.columns; ++o) {
        const float y = output.row(r)[o];
        const float g = gradient.row(r)[o] * (last_ ? 1.0F : 1 - y * y);
        for (std::size_t i = 0; i < input.columns; ++i) {
          of_input.row(r)[i] += g * weights_.row(i)[o];
          of_weights.row(i)[o] += g * input.row(r)[i];
        }
        of_weights.row(input.columns)[o] += g;
      }
    }
    co_return sluice::Gradients<Matrix>(std::move(of_input), std::move(of_weights));
  }

  void accumulate(sluice::MicrobatchId, Matrix contribution) override {
    for (std::size_t i = 0; i < gradient_.values.size(); ++i) {
      gradient_.values[i] += contribution.values[i];
    }
  }
  void prepare_update(std::int64_t) override {}  // may throw; this update needs no preparation
  void commit() noexcept override {
    for (std::size_t i = 0; i < weights_.values.size(); ++i) {
      weights_.values[i] -= options_.learning_rate * gradient_.values[i];
    }
    abort();
  }
  void abort() noexcept override {
    std::ranges::fill(gradient_.values, 0.0F);
    kept_.clear();
  }

  const Matrix& weights() const { return weights_; }

 private:
  struct Kept {
    Matrix input;
    Matrix output;
    Kept(Matrix of_input, Matrix of_output)
        : input(std::move(of_input)), output(std::move(of_output)) {}
  };

  /// Reports the loss; returns its gradient when training, else the prediction. The loss is a mean over
  /// the whole batch, however it is cut into microbatches.
  static Matrix distance(sluice::ActionContext<Matrix>& context, Matrix prediction) {
    Matrix gradient(prediction.rows, prediction.columns);
    double loss = 0;
    for (std::size_t i = 0; i < gradient.values.size(); ++i) {
      const float apart = prediction.values[i] - context.target->values[i];
      loss += 0.5 * apart * apart;
      gradient.values[i] = apart / static_cast<float>(context.batch_samples);
    }
    context.report_loss(loss);
    return context.training ? gradient : prediction;
  }

  asio::awaitable<void> wait_for_device() {
    if (options_.device_time.count() == 0) co_return;
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    asio::steady_timer done(executor);
    done.expires_after(
        std::chrono::duration_cast<asio::steady_timer::duration>(options_.device_time));
    co_await done.async_wait(asio::use_awaitable);
  }

  Options options_;
  bool last_;
  Matrix weights_;
  Matrix gradient_;
  std::map<sluice::MicrobatchId, Kept> kept_;  // for backwards that are still to come
};
