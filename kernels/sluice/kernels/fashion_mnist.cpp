#include <sluice/kernels/fashion_mnist.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/kernels/idx.hpp>

namespace sluice::kernels {
namespace {

constexpr int side = 28;
constexpr int classes = 10;
/// Of all pixels of the training images, as shares of white.
constexpr Normalization of_training_images{0.2860F, 0.3530F};

DataSet parse(std::span<const std::uint8_t> images, std::string_view images_name,
              std::span<const std::uint8_t> labels, std::string_view labels_name) {
  Idx pictures = parse_idx_gz(images, 3, images_name);
  Idx answers = parse_idx_gz(labels, 1, labels_name);
  if (pictures.dims[1] != side || pictures.dims[2] != side) {
    throw DataError(
        fmt::format("{}: expected images of {} x {} pixels, found {} x {}; this is "
                    "another data set",
                    images_name, side, side, pictures.dims[1], pictures.dims[2]));
  }
  if (pictures.dims[0] != answers.dims[0]) {
    throw DataError(
        fmt::format("{}: expected as many labels as {} has images, {}, found {}; take "
                    "both files from the same release",
                    labels_name, images_name, pictures.dims[0], answers.dims[0]));
  }
  return DataSet(std::string(labels_name), std::move(pictures.bytes), std::move(answers.bytes),
                 classes, of_training_images);
}

}  // namespace

DataSet load_fashion_mnist(Subset subset, const std::filesystem::path& folder) {
  const std::string prefix = subset == Subset::train ? "train" : "t10k";
  const auto images = folder / (prefix + "-images-idx3-ubyte.gz");
  const auto labels = folder / (prefix + "-labels-idx1-ubyte.gz");
  constexpr std::string_view advice =
      "install the package dataset-fashion-mnist, or name the folder that holds its files";
  const std::vector<std::uint8_t> image_bytes = read_file(images, advice);
  const std::vector<std::uint8_t> label_bytes = read_file(labels, advice);
  return parse(image_bytes, images.string(), label_bytes, labels.string());
}

DataSet parse_fashion_mnist(std::span<const std::uint8_t> images,
                            std::span<const std::uint8_t> labels) {
  return parse(images, "images", labels, "labels");
}

}  // namespace sluice::kernels
