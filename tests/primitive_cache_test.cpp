// Process-wide settings of the kernel library, and memory under ragged microbatches. A program of
// its own, because the setting must come before the first kernel.
#include <unistd.h>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/kernels/linear.hpp>
#include <sluice/kernels/onednn.hpp>

namespace sluice::kernels {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

double resident_megabytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  statm >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

TEST(PrimitiveCache, IsBoundedAndCannotBeBoundTooLate) {
  EXPECT_THROW(set_primitive_cache_capacity(-1), std::invalid_argument);
  EXPECT_EQ(set_primitive_cache_capacity(16), 16);

  Workspace workspace(1);
  constexpr std::size_t capacity = 4;
  Linear layer({"layers.0", 32, 32, true, true}, workspace, 8, capacity);
  const Tensor parameters =
      Tensor::zeros(DType::f32, Dims{static_cast<std::int64_t>(layer.parameter_floats())});
  const auto run = [&](std::int64_t samples) {
    const Tensor input = Tensor::zeros(DType::f32, Dims{samples, 32});
    Tensor output = Tensor::zeros(DType::f32, Dims{samples, 32});
    layer.forward(parameters.f32(), input, output);
  };

  // A thousand sizes of the last microbatch: after a warm-up, memory stays where it is.
  for (std::int64_t samples = 1; samples <= 200; ++samples) run(samples);
  const double warm = resident_megabytes();
  for (std::int64_t samples = 201; samples <= 1000; ++samples) run(samples);
  EXPECT_LT(resident_megabytes() - warm, 4.0);
  EXPECT_EQ(layer.cache().misses, 1001U);  // the usual size was long gone when its turn came
  EXPECT_EQ(layer.cache().hits, 0U);
  EXPECT_EQ(layer.cache().capacity, capacity);

  EXPECT_THAT([] { set_primitive_cache_capacity(1); },
              ThrowsMessage<std::logic_error>(
                  AllOf(HasSubstr("before the first layer"), HasSubstr("capacity stays 16"))));
}

}  // namespace
}  // namespace sluice::kernels
