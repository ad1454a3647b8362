#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <sluice/kernels/model.hpp>

namespace sluice::kernels {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Every cut of `costs` into `stages` parts, scored by the documented order; the best one.
std::vector<LayerRange> best_by_brute_force(const std::vector<std::int64_t>& costs, int stages) {
  const int layers = static_cast<int>(costs.size());
  using Rank = std::tuple<std::int64_t, std::int64_t, std::vector<int>>;  // smaller is better
  std::vector<LayerRange> best;
  Rank best_rank;
  for (unsigned mask = 0; mask < 1U << (layers - 1); ++mask) {
    std::vector<LayerRange> cut;
    int first = 0;
    for (int last = 1; last <= layers; ++last) {
      if (last < layers && (mask >> (last - 1) & 1U) == 0) continue;
      cut.emplace_back(first, last);
      first = last;
    }
    if (static_cast<int>(cut.size()) != stages) continue;
    std::int64_t most = std::numeric_limits<std::int64_t>::min();
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    std::vector<int> ends;
    for (const LayerRange& part : cut) {
      const auto sum =
          std::accumulate(costs.begin() + part.first, costs.begin() + part.last, std::int64_t{0});
      most = std::max(most, sum);
      least = std::min(least, sum);
      ends.push_back(-part.last);
    }
    const Rank rank{most, -least, ends};
    if (best.empty() || rank < best_rank) {
      best = cut;
      best_rank = rank;
    }
  }
  return best;
}

RC_GTEST_PROP(Partition, IsTheBestOfAllCuts, ()) {
  const auto layers = *rc::gen::inRange<std::size_t>(1, 11);
  const auto bound = *rc::gen::element<std::int64_t>(2, 5, 1'000'000'000'000);  // ties, and none
  const auto costs = *rc::gen::container<std::vector<std::int64_t>>(
      layers, rc::gen::inRange<std::int64_t>(0, bound));
  const auto stages = *rc::gen::inRange<int>(1, static_cast<int>(layers) + 1);
  RC_ASSERT(partition(costs, stages) == best_by_brute_force(costs, stages));
}

TEST(Partition, EqualLayersComeOutAsEvenAsTheyCan) {
  const std::vector<std::int64_t> equal(46, 7);
  EXPECT_THAT(partition(equal, 4), ElementsAre(LayerRange(0, 12), LayerRange(12, 24),
                                               LayerRange(24, 35), LayerRange(35, 46)));
}

TEST(Partition, MoreStagesThanLayersNamesBothAndTheLegalRange) {
  const Perceptron model({784, 128, 10});
  EXPECT_THAT([&] { partition(model, 3); },
              ThrowsMessage<std::invalid_argument>(AllOf(
                  HasSubstr("a model of 2 layers"), HasSubstr("expected 1 to 2 stages, found 3"))));
  EXPECT_THROW(partition(model, 0), std::invalid_argument);
  EXPECT_THROW(partition(std::vector<std::int64_t>(), 1), std::invalid_argument);
}

TEST(Model, CostsCountMultiplyAdds) {
  const Perceptron model({784, 128, 512, 128, 512, 10});
  EXPECT_EQ(model.layers(), 5);
  EXPECT_EQ(layer_cost(model, 0).forward, 784 * 128);
  EXPECT_EQ(layer_cost(model, 0).backward(), 784 * 128);  // no input gradient
  EXPECT_EQ(layer_cost(model, 1).total(), 3 * 128 * 512);
  EXPECT_EQ(model.layer(4).path, "layers.4");
  EXPECT_TRUE(model.layer(3).relu);
  EXPECT_FALSE(model.layer(4).relu);

  const auto cut = partition(model, 4);
  EXPECT_THAT(cut,
              ElementsAre(LayerRange(0, 1), LayerRange(1, 2), LayerRange(2, 3), LayerRange(3, 5)));
  const auto costs = stage_costs(model, cut);
  ASSERT_EQ(costs.size(), 4U);
  EXPECT_EQ(costs[3].forward, 128 * 512 + 512 * 10);
  EXPECT_EQ(costs[3].input_gradient, costs[3].weight_gradient);
  std::int64_t total = 0;
  for (const Cost& cost : costs) total += cost.total();
  EXPECT_EQ(total, 2 * 784 * 128 + 3 * (3 * 128 * 512 + 5120));
}

TEST(Model, MemoryCountsWhatIsKept) {
  const Perceptron model({20, 32, 16, 40, 10});
  const StageMemory first = stage_memory(model, LayerRange(0, 2), 8);
  EXPECT_EQ(first.per_microbatch, 4 * 8 * (20 + 32 + 16));  // two inputs, and a ReLU's output
  EXPECT_EQ(first.parameters, 3 * 4 * (21 * 32 + 33 * 16));
  EXPECT_EQ(stage_memory(model, LayerRange(3, 4), 8).per_microbatch, 4 * 8 * 40);
}

TEST(Model, WidthsThatMakeNoModelAreRefused) {
  EXPECT_THROW(Perceptron({784}), std::invalid_argument);
  EXPECT_THAT([] { Perceptron({784, 0, 10}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("found [784, 0, 10]")));
}

TEST(Model, ACutThatLosesOrRepeatsLayersListsThem) {
  const Perceptron model({1, 1, 1, 1, 1});
  using Cut = std::vector<LayerRange>;
  EXPECT_NO_THROW(check_cut(model, Cut{{0, 1}, {1, 4}}));
  EXPECT_THAT([&] { check_cut(model, Cut({{0, 1}, {2, 3}})); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("in no part: [1, 3]")));
  EXPECT_THAT([&] { check_cut(model, Cut({{0, 3}, {2, 4}})); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("in more than one: [2]")));
  EXPECT_THROW(check_cut(model, Cut({{2, 4}, {0, 2}})), std::invalid_argument);
  EXPECT_THROW(check_cut(model, Cut({{0, 4}, {4, 4}})), std::invalid_argument);
  EXPECT_THROW(check_cut(model, Cut({{-1, 4}})), std::invalid_argument);
  EXPECT_THROW(check_cut(model, Cut({{0, 5}})), std::invalid_argument);
  EXPECT_THROW(check_cut(model, Cut()), std::invalid_argument);
}

TEST(Model, StagesThatDoNotFitNameTheEdgeAndBothShapes) {
  std::vector<StageShape> stages(3);
  stages[0] = {Dims{8, 784}, Dims{8, 64}};
  stages[1] = {Dims{8, 64}, Dims{8, 64}};
  stages[2] = {Dims{8, 64}, Dims{8, 10}};
  EXPECT_NO_THROW(check_edges(stages));
  stages[1].input = Dims{8, 32};
  EXPECT_THAT([&] { check_edges(stages); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("edge 0 to 1"), HasSubstr("(8, 64)"), HasSubstr("(8, 32)"))));
}

}  // namespace
}  // namespace sluice::kernels
