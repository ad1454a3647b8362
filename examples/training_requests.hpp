// What clients of the training server write, as batches: a line in, microbatches out.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/stage.hpp>

#include "dense_stage.hpp"

// What strangers may ask for: M follows from a number in their line, and a plan is made for every M.
constexpr std::size_t most_samples = 10'000;
constexpr std::size_t longest_line = 1 << 20;

struct Request {
  bool train = true;
  std::size_t samples = 0;  ///< as announced
  std::vector<std::vector<float>> rows;
};

/// Reads `train N SAMPLES` and `evaluate N SAMPLES`. What a sample must be like is the model's
/// business: here every list of numbers will do, `nan` among them.
inline Request parse(const std::string& line) {
  std::istringstream words(line);
  Request request;
  std::string word;
  words >> word;
  if (word != "train" && word != "evaluate") {
    throw std::invalid_argument("expected `train N SAMPLES` or `evaluate N SAMPLES`");
  }
  request.train = word == "train";
  long announced = 0;
  if (!(words >> announced) || announced < 1 || announced > static_cast<long>(most_samples)) {
    throw std::invalid_argument(fmt::format("expected a number of samples, 1 to {}", most_samples));
  }
  request.samples = static_cast<std::size_t>(announced);
  for (std::string sample; std::getline(words, sample, ';');) {
    auto& row = request.rows.emplace_back();
    for (std::istringstream numbers(sample); numbers >> word;) {
      float& number = row.emplace_back();
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
      if (error != std::errc() || end != word.data() + word.size()) {
        throw std::invalid_argument(
            fmt::format("sample {}: `{}` is not a number", request.rows.size() - 1, word));
      }
    }
  }
  if (request.rows.size() > request.samples) {
    throw std::invalid_argument(
        fmt::format("{} samples were announced, {} came", request.samples, request.rows.size()));
  }
  return request;
}

/// Cuts a request into microbatches as the pipeline asks for them. What it throws ends the step.
class Samples final : public sluice::BatchSource<Matrix> {
 public:
  Samples(std::vector<std::vector<float>> rows, std::size_t inputs, std::size_t micro)
      : rows_(std::move(rows)), inputs_(inputs), micro_(micro) {}

  asio::awaitable<sluice::MicrobatchData<Matrix>> next(sluice::MicrobatchId mb) override {
    const std::size_t first = mb.index() * micro_;
    if (first >= rows_.size()) throw sluice::EndOfBatch();
    const std::size_t count = std::min(micro_, rows_.size() - first);  // the last may be short
    Matrix input(count, inputs_);
    Matrix target(count, 1);
    for (std::size_t r = 0; r < count; ++r) {
      const auto& row = rows_[first + r];
      if (row.size() != inputs_ + 1) {
        throw std::invalid_argument(
            fmt::format("sample {} has {} numbers; expected {} inputs and a target", first + r,
                        row.size(), inputs_));
      }
      std::copy_n(row.begin(), inputs_, input.row(r).begin());
      target.row(r)[0] = row.back();
    }
    co_return sluice::MicrobatchData<Matrix>(std::move(input), std::move(target),
                                             static_cast<std::int64_t>(count));
  }

 private:
  std::vector<std::vector<float>> rows_;
  std::size_t inputs_;
  std::size_t micro_;
};
