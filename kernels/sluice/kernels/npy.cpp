#include <sluice/kernels/npy.hpp>

#include <cstddef>

#include <fmt/format.h>

namespace sluice::kernels {
namespace {

constexpr std::string_view magic("\x93NUMPY\x01\x00", 8);
constexpr std::size_t header_at = magic.size() + 2;

struct Parts {
  std::string_view header;
  std::string_view data;
};

std::optional<Parts> parts_of(std::string_view bytes) {
  if (!bytes.starts_with(magic) || bytes.size() < header_at) return std::nullopt;
  const auto byte = [&bytes](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const std::size_t size = byte(magic.size()) | std::size_t{byte(magic.size() + 1)} << 8;
  if (bytes.size() - header_at < size) return std::nullopt;
  return Parts{bytes.substr(header_at, size), bytes.substr(header_at + size)};
}

/// What stands between `before` and the next `after`.
std::string_view between(std::string_view text, std::string_view before, char after) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + before.size());
  return text.substr(0, text.find(after));
}

}  // namespace

std::string to_npy(const Tensor& tensor) {
  const Dims& dims = tensor.dims();
  std::string shape;
  for (std::size_t axis = 0; axis < dims.rank(); ++axis) shape += fmt::format("{}, ", dims[axis]);
  if (dims.rank() == 0) shape = "0, ";
  if (dims.rank() > 1) shape.resize(shape.size() - 2);  // of one number the comma stays
  if (shape.ends_with(' ')) shape.pop_back();
  std::string header = fmt::format("{{'descr': '<{}4', 'fortran_order': False, 'shape': ({}), }}",
                                   tensor.type() == DType::f32 ? 'f' : 'i', shape);
  header.append(alignment - (header_at + header.size() + 1) % alignment, ' ');
  header += '\n';

  std::string bytes(magic);
  bytes += static_cast<char>(header.size() & 0xFF);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  const void* data = tensor.type() == DType::f32 ? static_cast<const void*>(tensor.f32().data())
                                                 : static_cast<const void*>(tensor.s32().data());
  if (!tensor.empty()) bytes.append(static_cast<const char*>(data), tensor.bytes());
  return bytes;
}

std::optional<NpyShape> npy_shape(std::string_view bytes) {
  const auto parts = parts_of(bytes);
  if (!parts) return std::nullopt;
  const std::string_view type = between(parts->header, "'descr': '<", '\'');
  const std::string_view shape = between(parts->header, "'shape': (", ')');
  if (type.empty() || shape.empty()) return std::nullopt;
  return NpyShape{std::string(type), fmt::format("({})", shape)};
}

}  // namespace sluice::kernels
