// A tensor as a .npy file: the header that NumPy expects, byte by byte.

#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include <sluice/kernels/npy.hpp>
#include <sluice/kernels/wire_traits.hpp>

namespace sluice::kernels {
namespace {

TEST(Npy, HoldsTypeShapeAndNumbers) {
  Tensor tensor = Tensor::zeros(DType::f32, Dims{2, 3});
  for (std::size_t i = 0; i < 6; ++i) tensor.f32()[i] = static_cast<float>(i) / 4;
  const std::string bytes = WireTraits<Tensor>::encode(tensor);
  ASSERT_EQ(bytes.size(), 128U + tensor.bytes());
  EXPECT_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(bytes.substr(10, 118), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" +
                                       std::string(58, ' ') + '\n');
  EXPECT_EQ(std::memcmp(bytes.data() + 128, tensor.f32().data(), tensor.bytes()), 0);
}

TEST(Npy, SaysEveryShapeAsPythonWould) {
  const auto shape = [](DType type, const Dims& dims) {
    const std::string bytes = to_npy(Tensor::zeros(type, dims));
    EXPECT_EQ(bytes.size() % alignment, Tensor::zeros(type, dims).bytes() % alignment);
    const auto read = npy_shape(bytes);
    return read ? read->type + read->shape : "none";
  };
  EXPECT_EQ(shape(DType::f32, Dims{}), "f4(0,)");
  EXPECT_EQ(shape(DType::s32, Dims{7}), "i4(7,)");
  EXPECT_EQ(shape(DType::f32, Dims{5, 0}), "f4(5, 0)");
  EXPECT_EQ(shape(DType::f32, Dims{1, 2, 3, 4}), "f4(1, 2, 3, 4)");
}

TEST(Npy, AnythingElseHasNoShape) {
  const std::string whole = to_npy(Tensor::zeros(DType::f32, Dims{2, 3}));
  for (std::size_t size = 0; size < 128; ++size) {
    EXPECT_FALSE(npy_shape(std::string_view(whole).substr(0, size))) << size;
  }
  EXPECT_TRUE(npy_shape(std::string_view(whole).substr(0, 128)));
  std::string other = whole;
  other[0] = 'N';
  EXPECT_FALSE(npy_shape(other));
}

}  // namespace
}  // namespace sluice::kernels
