// Fashion-MNIST: 70,000 images of clothes, 28 x 28 grey pixels, ten classes.
//
// Called once while a run is set up. Debian packages it as dataset-fashion-mnist.
// The caller owns what is loaded; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include <sluice/kernels/data_set.hpp>

namespace sluice::kernels {

enum class Subset : std::uint8_t {
  train,  ///< 60,000 images
  test,   ///< 10,000 images
};

/// Where the Debian package puts it.
inline constexpr const char* fashion_mnist_folder = "/usr/share/datasets/fashion-mnist";

/// Features are normalised with mean and deviation of the training images. Throws DataError, naming
/// the file; when it is missing, also the package to install.
DataSet load_fashion_mnist(Subset subset, const std::filesystem::path& folder);

/// The same from two gzipped IDX files in memory, of any number of images; for tests and fuzzers.
DataSet parse_fashion_mnist(std::span<const std::uint8_t> images,
                            std::span<const std::uint8_t> labels);

}  // namespace sluice::kernels
