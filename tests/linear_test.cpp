#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/kernels/linear.hpp>
#include <sluice/kernels/onednn.hpp>
#include <sluice/kernels/openmp.hpp>
#include <sluice/random.hpp>

namespace sluice::kernels {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using testing::ThrowsMessage;

Tensor random_tensor(const Dims& dims, const char* name) {
  Tensor tensor = Tensor::uninitialized(DType::f32, dims);
  KeyedRandom random(1, 0, name, 0, "test");
  for (float& value : tensor.f32()) value = 2.0F * random.uniform() - 1.0F;
  return tensor;
}

/// A layer with its parameters, and what a textbook says of it, in doubles.
struct Fixture {
  Fixture(std::int64_t of_inputs, std::int64_t of_outputs, bool of_relu, std::int64_t samples)
      : inputs(of_inputs),
        outputs(of_outputs),
        relu(of_relu),
        layer({"layers.1", inputs, outputs, relu, true}, workspace, samples, 4),
        block(layer.parameter_floats()),
        weight(random_tensor(Dims{outputs, inputs}, "weight")),
        bias(random_tensor(Dims{outputs}, "bias")) {
    layer.write(block, weight.f32(), bias.f32());
  }

  double expected_output(const Tensor& input, std::int64_t n, std::int64_t o) const {
    double sum = bias.f32()[o];
    for (std::int64_t i = 0; i < inputs; ++i) {
      sum += static_cast<double>(input.f32()[n * inputs + i]) * weight.f32()[o * inputs + i];
    }
    return relu ? std::max(sum, 0.0) : sum;
  }

  Tensor run_forward(const Tensor& input) {
    Tensor output = Tensor::uninitialized(DType::f32, Dims{input.dims()[0], outputs});
    layer.forward(block, input, output);
    return output;
  }

  std::int64_t inputs, outputs;
  bool relu;
  Workspace workspace{1};
  Linear layer;
  std::vector<float> block;
  Tensor weight, bias;
};

struct Shape {
  std::int64_t inputs, outputs, usual, samples;
};

// Widths of one, of primes, just over a register, and of the example models; the usual microbatch
// and a ragged one.
const std::vector<Shape> shapes = {{1, 1, 1, 1},     {7, 5, 4, 3},       {64, 1, 32, 32},
                                   {3, 33, 8, 8},    {784, 128, 32, 32}, {128, 784, 32, 17},
                                   {784, 10, 32, 1}, {512, 100, 64, 100}};

TEST(Linear, ForwardMatchesTheTextbook) {
  for (const Shape& shape : shapes) {
    for (const bool relu : {false, true}) {
      Fixture f(shape.inputs, shape.outputs, relu, shape.usual);
      const Tensor input = random_tensor(Dims{shape.samples, shape.inputs}, "input");
      const Tensor output = f.run_forward(input);
      for (std::int64_t n = 0; n < shape.samples; ++n) {
        for (std::int64_t o = 0; o < shape.outputs; ++o) {
          ASSERT_NEAR(output.f32()[n * shape.outputs + o], f.expected_output(input, n, o),
                      1e-6 * static_cast<double>(shape.inputs) + 1e-6)
              << shape.inputs << " to " << shape.outputs << ", sample " << n << ", output " << o;
        }
      }
    }
  }
}

TEST(Linear, GradientsMatchTheTextbook) {
  for (const Shape& shape : shapes) {
    Fixture f(shape.inputs, shape.outputs, false, shape.usual);
    const Tensor input = random_tensor(Dims{shape.samples, shape.inputs}, "input");
    const Tensor dy = random_tensor(Dims{shape.samples, shape.outputs}, "gradient");

    Tensor dx = Tensor::uninitialized(DType::f32, Dims{shape.samples, shape.inputs});
    f.layer.backward_data(f.block, dy, dx);
    for (std::int64_t n = 0; n < shape.samples; ++n) {
      for (std::int64_t i = 0; i < shape.inputs; ++i) {
        double sum = 0;
        for (std::int64_t o = 0; o < shape.outputs; ++o) {
          sum += static_cast<double>(dy.f32()[n * shape.outputs + o]) *
                 f.weight.f32()[o * shape.inputs + i];
        }
        ASSERT_NEAR(dx.f32()[n * shape.inputs + i], sum,
                    1e-6 * static_cast<double>(shape.outputs) + 1e-6);
      }
    }

    std::vector<float> gradient(f.layer.parameter_floats());
    f.layer.backward_weights(input, dy, gradient);
    Tensor dw = Tensor::uninitialized(DType::f32, f.weight.dims());
    Tensor db = Tensor::uninitialized(DType::f32, f.bias.dims());
    f.layer.read(gradient, dw.f32(), db.f32());
    for (std::int64_t o = 0; o < shape.outputs; ++o) {
      double bias_sum = 0;
      for (std::int64_t n = 0; n < shape.samples; ++n) bias_sum += dy.f32()[n * shape.outputs + o];
      ASSERT_NEAR(db.f32()[o], bias_sum, 1e-5);
      for (std::int64_t i = 0; i < shape.inputs; ++i) {
        double sum = 0;
        for (std::int64_t n = 0; n < shape.samples; ++n) {
          sum += static_cast<double>(dy.f32()[n * shape.outputs + o]) *
                 input.f32()[n * shape.inputs + i];
        }
        ASSERT_NEAR(dw.f32()[o * shape.inputs + i], sum, 1e-5);
      }
    }
  }
}

// Weights are written in row-major order whatever layout the kernels chose long before.
TEST(Linear, AllOnesSumUpTheInputs) {
  Fixture f(64, 20, false, 8);
  f.layer.write(f.block, std::vector<float>(1280, 1.0F), std::vector<float>(20, 0.0F));
  Tensor input = Tensor::uninitialized(DType::f32, Dims{8, 64});
  std::fill(input.f32().begin(), input.f32().end(), 1.0F);
  EXPECT_THAT(f.run_forward(input).f32(), Each(64.0F));
  EXPECT_THAT(f.run_forward(input).f32(), Each(64.0F));
}

TEST(Linear, ReadReturnsTheBitsThatWriteWasGiven) {
  for (const Shape& shape : shapes) {
    Fixture f(shape.inputs, shape.outputs, false, shape.usual);
    Tensor weight = Tensor::zeros(DType::f32, f.weight.dims());
    Tensor bias = Tensor::zeros(DType::f32, f.bias.dims());
    f.layer.read(f.block, weight.f32(), bias.f32());
    EXPECT_EQ(weight.hash(), f.weight.hash());
    EXPECT_EQ(bias.hash(), f.bias.hash());
  }
}

// A gradient buffer comes from a pool, full of whatever was there before.
TEST(Linear, GradientOverwritesRubbishAndPaddingIsZero) {
  for (const Shape& shape : shapes) {
    Fixture f(shape.inputs, shape.outputs, false, shape.usual);
    const Tensor input = random_tensor(Dims{shape.samples, shape.inputs}, "input");
    const Tensor dy = random_tensor(Dims{shape.samples, shape.outputs}, "gradient");
    std::vector<float> clean(f.layer.parameter_floats(), 0.0F);
    std::vector<float> dirty(clean.size(), std::numeric_limits<float>::quiet_NaN());
    f.layer.backward_weights(input, dy, clean);
    f.layer.backward_weights(input, dy, dirty);
    EXPECT_EQ(clean, dirty) << shape.inputs << " to " << shape.outputs;
    // Nothing but the real parameters counts.
    const auto nonzero =
        clean.size() - static_cast<std::size_t>(std::count(clean.begin(), clean.end(), 0.0F));
    EXPECT_LE(nonzero, static_cast<std::size_t>(shape.outputs * (shape.inputs + 1)));
  }
}

TEST(Linear, RepeatsBitForBit) {
  Fixture f(784, 128, true, 32);
  const Tensor input = random_tensor(Dims{32, 784}, "input");
  const std::uint64_t once = f.run_forward(input).hash();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(f.run_forward(input.clone()).hash(), once);
  Fixture other(784, 128, true, 32);
  EXPECT_EQ(other.run_forward(input).hash(), once);
}

// The library promises equal bits for equal shapes only; a sample in a ragged microbatch is equal
// within rounding.
TEST(Linear, ASampleInAShorterMicrobatchIsCloseButNeedNotBeEqual) {
  Fixture f(300, 40, false, 4);
  const Tensor four = random_tensor(Dims{4, 300}, "input");
  Tensor three = Tensor::uninitialized(DType::f32, Dims{3, 300});
  std::copy_n(four.f32().begin(), three.f32().size(), three.f32().begin());
  const Tensor from_four = f.run_forward(four);
  const Tensor from_three = f.run_forward(three);
  for (std::size_t i = 0; i < from_three.f32().size(); ++i) {
    EXPECT_NEAR(from_three.f32()[i], from_four.f32()[i], 1e-4);
  }
}

// A stage is made on one thread and resumes on others; their OpenMP limits are not ours either.
TEST(Linear, RunsOnOtherThreadsThanItWasMadeOn) {
  Fixture f(784, 128, true, 32);
  const Tensor input = random_tensor(Dims{32, 784}, "input");
  const Tensor dy = random_tensor(Dims{32, 128}, "gradient");
  const std::uint64_t here = f.run_forward(input).hash();
  std::vector<float> gradient(f.layer.parameter_floats());
  f.layer.backward_weights(input, dy, gradient);
  for (int i = 0; i < 16; ++i) {
    std::uint64_t there = 0;
    std::vector<float> gradient_there(gradient.size());
    std::thread([&] {
      omp_set_num_threads(1 + i % 3);
      there = f.run_forward(input).hash();
      f.layer.backward_weights(input, dy, gradient_there);
      EXPECT_EQ(omp_get_max_threads(), 1 + i % 3);
    }).join();
    EXPECT_EQ(there, here);
    EXPECT_EQ(gradient_there, gradient);
  }
}

TEST(Linear, EightStagesAtOnceOnTheirOwnThreads) {
  const Tensor input = random_tensor(Dims{32, 784}, "input");
  std::vector<std::uint64_t> hashes(8);
  std::vector<std::thread> threads;
  threads.reserve(hashes.size());
  for (std::uint64_t& hash : hashes) {
    threads.emplace_back([&input, &hash] {
      Fixture f(784, 128, true, 32);
      for (int i = 0; i < 50; ++i) hash = f.run_forward(input).hash();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(hashes, Each(hashes[0]));
}

// More kernel threads are allowed, and are another run: equal within rounding.
TEST(Linear, AnotherThreadCountIsClose) {
  Workspace two(2);
  Linear layer({"layers.1", 784, 128, false, true}, two, 32, 1);
  Fixture f(784, 128, false, 32);
  std::vector<float> block(layer.parameter_floats());
  layer.write(block, f.weight.f32(), f.bias.f32());
  const Tensor input = random_tensor(Dims{32, 784}, "input");
  const Tensor expected = f.run_forward(input);
  Tensor output = Tensor::uninitialized(DType::f32, Dims{32, 128});
  layer.forward(block, input, output);
  for (std::size_t i = 0; i < output.f32().size(); ++i) {
    ASSERT_NEAR(output.f32()[i], expected.f32()[i], 1e-4);
  }
}

TEST(KernelThreads, AreCappedAndGivenBack) {
  EXPECT_EQ(effective_kernel_threads(1, 8), 1);
  EXPECT_EQ(effective_kernel_threads(0, 1), 1);
  const int processors = static_cast<int>(std::thread::hardware_concurrency());
  EXPECT_EQ(effective_kernel_threads(1'000'000, 1), processors);
  EXPECT_EQ(effective_kernel_threads(1'000'000, processors + 1), 1);

  omp_set_num_threads(3);
  {
    const KernelThreads limit(1);
    EXPECT_EQ(omp_get_max_threads(), 1);
  }
  EXPECT_EQ(omp_get_max_threads(), 3);
}

TEST(Linear, SaysWhichKernelsItRuns) {
  const Fixture f(784, 128, true, 32);
  const auto names = f.layer.implementations();
  ASSERT_EQ(names.size(), 3U);
  EXPECT_THAT(names[0], StartsWith("layers.1 forward "));
  EXPECT_THAT(names[1], StartsWith("layers.1 backward-data "));
  EXPECT_THAT(names[2], StartsWith("layers.1 backward-weights "));
  EXPECT_THAT(names, Each(Not(HasSubstr(" ref"))));
  const KernelIdentity identity = kernel_identity(1);
  EXPECT_THAT(identity.library, StartsWith("oneDNN "));
  EXPECT_FALSE(identity.isa.empty());
}

TEST(Linear, WrongShapesNameLayerExpectedAndFound) {
  Fixture f(64, 20, false, 8);
  Tensor output = Tensor::zeros(DType::f32, Dims{8, 20});
  const Tensor narrow = Tensor::zeros(DType::f32, Dims{8, 32});
  EXPECT_THAT([&] { f.layer.forward(f.block, narrow, output); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("layers.1: input"), HasSubstr("(samples, 64), found (8, 32)"))));
  const Tensor fewer = Tensor::zeros(DType::f32, Dims{7, 64});
  EXPECT_THAT([&] { f.layer.forward(f.block, fewer, output); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("(7, 20), found (8, 20)")));
  const Tensor labels = Tensor::zeros(DType::s32, Dims{8, 64});
  EXPECT_THAT([&] { f.layer.forward(f.block, labels, output); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("found s32 (8, 64)")));
  EXPECT_THAT([&] { f.layer.forward(f.block, Tensor(), output); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("found ()")));
  const Tensor input = Tensor::zeros(DType::f32, Dims{8, 64});
  EXPECT_THAT([&] { f.layer.forward(std::vector<float>(3), input, output); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("found 3")));
  EXPECT_THAT([&] { f.layer.write(f.block, std::vector<float>(64), std::vector<float>(20)); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("layers.1.weight (20, 64)"), HasSubstr("found 64 and 20"))));
  EXPECT_THROW(Linear({"layers.0", 0, 1, false, true}, f.workspace, 1, 1), std::invalid_argument);
}

TEST(Linear, InitialWeightsDependOnSeedAndPathAlone) {
  Workspace workspace(1);
  const auto weights = [&workspace](const char* path, std::uint64_t seed, std::int64_t samples) {
    Linear layer({path, 50, 20, true, true}, workspace, samples, 1);
    std::vector<float> block(layer.parameter_floats());
    layer.initialize(block, seed);
    std::vector<float> weight(1000);
    std::vector<float> bias(20, 1.0F);
    layer.read(block, weight, bias);
    EXPECT_THAT(bias, Each(0.0F));
    return weight;
  };
  const std::vector<float> base = weights("layers.0", 1, 8);
  EXPECT_EQ(base, weights("layers.0", 1, 1));
  EXPECT_NE(base, weights("layers.0", 2, 8));
  EXPECT_NE(base, weights("layers.1", 1, 8));

  const float bound = std::sqrt(6.0F / 50.0F);
  const auto [least, most] = std::minmax_element(base.begin(), base.end());
  EXPECT_GE(*least, -bound);
  EXPECT_LE(*most, bound);
  EXPECT_GT(*most - *least, 1.8F * bound);
}

TEST(Linear, CountsHitsAndMissesOfItsKernels) {
  Fixture f(16, 16, false, 8);
  EXPECT_EQ(f.layer.cache().misses, 1U);
  for (const std::int64_t samples : {8, 7, 6, 5, 4, 8}) {
    f.run_forward(random_tensor(Dims{samples, 16}, "input"));
  }
  // Room for four: 8 went when 4 came, and was made again.
  EXPECT_EQ(f.layer.cache().hits, 1U);
  EXPECT_EQ(f.layer.cache().misses, 6U);
  EXPECT_EQ(f.layer.cache().capacity, 4U);
  EXPECT_THROW(Linear({"layers.0", 1, 1, false, true}, f.workspace, 1, 0), std::invalid_argument);
}

}  // namespace
}  // namespace sluice::kernels
