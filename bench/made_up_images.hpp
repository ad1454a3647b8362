// Images without a meaning, for what is measured with kernels and without a data set on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <sluice/kernels/data_set.hpp>

namespace sluice {

/// 2,048 samples of 784 pixels in ten classes, the same each time.
inline std::shared_ptr<const kernels::DataSet> made_up_images() {
  constexpr std::size_t samples = 2048;
  constexpr std::size_t pixels = 784;
  std::vector<std::uint8_t> bytes(samples * pixels);
  std::vector<std::uint8_t> labels(samples);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37 % 251);
  for (std::size_t i = 0; i < samples; ++i) labels[i] = static_cast<std::uint8_t>(i * 7 % 10);
  return std::make_shared<const kernels::DataSet>("made up", bytes, labels, 10,
                                                  kernels::Normalization{0.3F, 0.35F});
}

}  // namespace sluice
