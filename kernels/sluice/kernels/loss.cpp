#include <sluice/kernels/loss.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

namespace sluice::kernels {
namespace {

struct Rows {
  std::size_t samples = 0;
  std::size_t classes = 0;
};

Rows rows_of(const Tensor& values) {
  const Dims& dims = values.dims();
  if (dims.rank() != 2 || dims[0] < 1 || dims[1] < 1) {
    throw std::invalid_argument(fmt::format(
        "loss: expected f32 (samples, classes), found {}; the last layer gives one row a sample",
        to_string(dims)));
  }
  return {static_cast<std::size_t>(dims[0]), static_cast<std::size_t>(dims[1])};
}

std::span<const std::int32_t> checked(const Tensor& labels, const Rows& rows) {
  if (labels.dims().rank() != 1 || labels.type() != DType::s32 ||
      labels.dims()[0] != static_cast<std::int64_t>(rows.samples)) {
    throw std::invalid_argument(fmt::format(
        "loss: expected s32 labels ({}), one a sample, found {}{}; the batch source "
        "must give a microbatch's labels as its target",
        rows.samples, labels.type() == DType::s32 ? "s32 " : "f32 ", to_string(labels.dims())));
  }
  const auto values = labels.s32();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] >= static_cast<std::int64_t>(rows.classes)) {
      throw std::invalid_argument(
          fmt::format("loss: label of sample {} of the microbatch: expected 0..{}, found {}; check "
                      "the labels, or give the last layer more outputs",
                      i, rows.classes - 1, values[i]));
    }
  }
  return values;
}

}  // namespace

void log_softmax(Tensor& values) {
  const Rows rows = rows_of(values);
  const auto all = values.f32();
  for (std::size_t i = 0; i < rows.samples; ++i) {
    const auto row = all.subspan(i * rows.classes, rows.classes);
    const float most = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float value : row) sum += std::exp(value - most);
    const auto shift = static_cast<float>(most + std::log(sum));
    for (float& value : row) value -= shift;
  }
}

Score score(const Tensor& log_probabilities, const Tensor& labels) {
  const Rows rows = rows_of(log_probabilities);
  const auto right = checked(labels, rows);
  const auto all = log_probabilities.f32();
  Score result;
  result.samples = static_cast<std::int64_t>(rows.samples);
  for (std::size_t i = 0; i < rows.samples; ++i) {
    const auto row = all.subspan(i * rows.classes, rows.classes);
    const auto label = static_cast<std::size_t>(right[i]);
    result.loss -= row[label];
    const auto best = std::max_element(row.begin(), row.end()) - row.begin();
    // Where everything is NaN the "best" is class 0, which is no answer.
    if (static_cast<std::size_t>(best) == label && !std::isnan(row[label])) ++result.correct;
  }
  return result;
}

void cross_entropy_backward(Tensor& log_probabilities, const Tensor& labels,
                            std::int64_t batch_samples) {
  const Rows rows = rows_of(log_probabilities);
  const auto right = checked(labels, rows);
  if (batch_samples < 1) {
    throw std::invalid_argument(
        fmt::format("loss: samples in the global batch: expected at least 1, found {}; set the "
                    "batch's number of samples",
                    batch_samples));
  }
  const auto scale = static_cast<float>(1.0 / static_cast<double>(batch_samples));
  const auto all = log_probabilities.f32();
  for (std::size_t i = 0; i < rows.samples; ++i) {
    const auto row = all.subspan(i * rows.classes, rows.classes);
    for (float& value : row) value = std::exp(value) * scale;
    row[static_cast<std::size_t>(right[i])] -= scale;
  }
}

}  // namespace sluice::kernels
