#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "tests/core/graph/gradient_check.h"

namespace muster {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;

Json node_of(const std::string& op, const Json& attributes = Json::object()) {
  Json node = attributes;
  node["id"] = "n";
  node["op"] = op;
  return Json::array({node});
}

Result<Graph> graph_of(const Shape& input, const Json& nodes) {
  return Graph::from_json(
      {{"input", {{"shape", input}}}, {"nodes", nodes}, {"loss", {{"type", "mse"}}}});
}

const std::vector<GradientCase> kCases{
    // Of two values that are close the differences would be too coarse, so eps is large.
    {"batch_norm_of_channels", {5}, node_of("batch_norm", {{"eps", 0.3}})},
    {"batch_norm_of_many_channels", {37}, node_of("batch_norm", {{"eps", 0.3}})},
    {"batch_norm_of_sequences", {3, 7}, node_of("batch_norm")},
    {"batch_norm_of_images", {2, 3, 5}, node_of("batch_norm")},
    {"batch_norm_plain", {2, 3, 3}, node_of("batch_norm", {{"affine", false}})},
    {"batch_norm_eps", {4}, node_of("batch_norm", {{"eps", 0.5}, {"momentum", 0.3}})},
    {.name = "batch_norm_evaluation_of_channels",
     .input = {6},
     .nodes = node_of("batch_norm"),
     .training = false},
    {.name = "batch_norm_evaluation_of_images",
     .input = {3, 2, 5},
     .nodes = node_of("batch_norm"),
     .training = false},
    {"group_norm_one_group", {4, 3}, node_of("group_norm", {{"num_groups", 1}})},
    {"group_norm_two_groups", {6, 3, 3}, node_of("group_norm", {{"num_groups", 2}})},
    {"group_norm_each_channel", {3, 5, 7}, node_of("group_norm", {{"num_groups", 3}})},
    {"group_norm_of_channels", {6}, node_of("group_norm", {{"num_groups", 2}})},
    {"group_norm_plain",
     {4, 9},
     node_of("group_norm", {{"num_groups", 2}, {"affine", false}, {"eps", 0.1}})},
    {"layer_norm", {3, 7}, node_of("layer_norm")},
    {"layer_norm_wide", {2, 67}, node_of("layer_norm")},
    {"layer_norm_both", {3, 3}, node_of("layer_norm", {{"normalized_shape", {3, 3}}})},
    {"layer_norm_plain", {5}, node_of("layer_norm", {{"affine", false}})},
};

class Norm : public testing::TestWithParam<std::tuple<GradientCase, int>> {};

TEST_P(Norm, GradientEqualsCentralDifferences) {
  const auto& [test, batch] = GetParam();
  const bool one_value =
      batch == 1 && test.input.size() == 1 && test.training && test.name.starts_with("batch_norm");
  // What a single value gives has a test of its own.
  if (!one_value) check_gradient(test, batch);
}

INSTANTIATE_TEST_SUITE_P(Grid, Norm,
                         testing::Combine(testing::ValuesIn(kCases), testing::Values(1, 2, 3, 6)),
                         [](const auto& entry) {
                           return std::get<0>(entry.param).name + "_batch_" +
                                  std::to_string(std::get<1>(entry.param));
                         });

struct Trained {
  std::vector<float> y;
  StateDict state;
};

Trained train(const Graph& graph, const std::vector<float>& x, std::int64_t batch,
              bool training = true) {
  auto run = GraphRun::create(graph, {.max_batch = batch});
  EXPECT_TRUE(run);
  StateDict state = graph.initial_state(1);
  const auto y = run->run(state, x, batch, {.training = training});
  std::vector<float> values(y.begin(), y.end());
  run->update_untrained(state);
  return {std::move(values), std::move(state)};
}

// Groups of values far from 0, longer than a block of the sums: mean 1000 and deviation 1.
TEST(Norm, LargeGroupsFarFromZeroMatchADoublePrecisionReference) {
  constexpr std::int64_t kSize = 5003;
  Random random(9);
  std::vector<float> x(2 * kSize);
  for (float& value : x) value = static_cast<float>(1000 + random.normal());
  for (const Json& nodes : {node_of("group_norm", {{"num_groups", 1}}), node_of("layer_norm"),
                            node_of("group_norm", {{"num_groups", 1}, {"affine", false}})}) {
    const auto graph = graph_of({1, kSize}, nodes);
    ASSERT_TRUE(graph) << graph.error().message;
    const std::vector<float> y = train(*graph, x, 2).y;
    for (std::size_t n = 0; n < 2; ++n) {
      const float* row = x.data() + n * kSize;
      double mean = 0;
      double var = 0;
      for (std::int64_t i = 0; i < kSize; ++i) mean += row[i] / static_cast<double>(kSize);
      for (std::int64_t i = 0; i < kSize; ++i) {
        var += (row[i] - mean) * (row[i] - mean) / static_cast<double>(kSize);
      }
      for (std::int64_t i = 0; i < kSize; ++i) {
        const double want = (row[i] - mean) / std::sqrt(var + 1e-5);
        // The mean is held as float32, half a unit of whose last place is 3e-5 here.
        EXPECT_NEAR(y[n * kSize + static_cast<std::size_t>(i)], want, 5e-5);
      }
    }
  }
}

TEST(BatchNorm, RunningStatisticsOfLargeBatchesMatchADoublePrecisionReference) {
  for (const Shape& shape : {Shape{35}, Shape{35, 9}, Shape{35, 3, 3}}) {
    const auto graph = graph_of(shape, node_of("batch_norm", {{"momentum", 0.25}}));
    ASSERT_TRUE(graph) << graph.error().message;
    const std::int64_t positions = graph->input_size() / 35;
    constexpr std::int64_t kBatch = 33;
    Random random(9);
    std::vector<float> x(static_cast<std::size_t>(kBatch * graph->input_size()));
    for (float& value : x) value = static_cast<float>(100 + random.normal());
    const Trained trained = train(*graph, x, kBatch);
    for (std::int64_t c = 0; c < 35; ++c) {
      std::vector<double> values;
      for (std::int64_t n = 0; n < kBatch; ++n) {
        for (std::int64_t i = 0; i < positions; ++i) {
          values.push_back(x[static_cast<std::size_t>((n * 35 + c) * positions + i)]);
        }
      }
      const auto count = static_cast<double>(values.size());
      double mean = 0;
      double var = 0;
      for (const double value : values) mean += value / count;
      for (const double value : values) var += (value - mean) * (value - mean) / (count - 1);
      const auto place = static_cast<std::size_t>(c);
      EXPECT_NEAR(trained.state.tensor("n.running_mean")[place], 0.25 * mean, 1e-5);
      EXPECT_NEAR(trained.state.tensor("n.running_var")[place], 0.75 + 0.25 * var, 1e-5);
    }
  }
}

TEST(BatchNorm, ASingleValueGivesTheBiasAndLeavesTheVariance) {
  const auto graph = graph_of({3}, node_of("batch_norm"));
  ASSERT_TRUE(graph);
  GraphRunOptions options;
  options.input_gradients = true;
  auto run = GraphRun::create(*graph, options);
  StateDict state = graph->initial_state(1);
  std::ranges::fill(state.tensor("n.bias"), 0.25F);
  const std::vector<float> x{10, 20, -30};
  EXPECT_THAT(run->run(state, x, 1, {.training = true}), Each(FloatEq(0.25F)));
  run->update_untrained(state);
  EXPECT_THAT(state.tensor("n.running_mean"), ElementsAre(1, 2, -3));
  EXPECT_THAT(state.tensor("n.running_var"), Each(1.0F));
  StateDict gradient(graph->layout());
  run->backward(std::vector<float>{1, 2, 3}, gradient);
  EXPECT_THAT(run->input_gradient("input"), Each(0.0F));
  EXPECT_THAT(gradient.tensor("n.bias"), ElementsAre(1, 2, 3));
  EXPECT_THAT(gradient.tensor("n.weight"), Each(0.0F));
}

TEST(BatchNorm, EvaluationUsesAndKeepsTheRunningStatistics) {
  const auto graph = graph_of({2}, node_of("batch_norm", {{"eps", 1e-12}}));
  ASSERT_TRUE(graph);
  auto run = GraphRun::create(*graph, {.max_batch = 2});
  StateDict state = graph->initial_state(1);
  state.tensor("n.running_mean")[0] = 4;
  state.tensor("n.running_var")[0] = 9;
  EXPECT_THAT(run->run(state, std::vector<float>{10, 5, 1, 6}, 2, {.training = false}),
              ElementsAre(FloatEq(2), FloatEq(5), FloatEq(-1), FloatEq(6)));
  const StateDict before = state.clone();
  run->update_untrained(state);
  EXPECT_TRUE(state == before);
}

TEST(BatchNorm, RunningStatisticsAreParametersThatAreNotTrained) {
  const auto graph = graph_of({3, 4, 4}, node_of("batch_norm"));
  ASSERT_TRUE(graph);
  std::int64_t trained = 0;
  for (const Graph::Range& range : graph->trained_ranges()) trained += range.size;
  EXPECT_EQ(trained, 6);
  const StateDict state = graph->initial_state(4);
  EXPECT_THAT(state.tensor("n.weight"), ElementsAre(1, 1, 1));
  EXPECT_THAT(state.tensor("n.bias"), ElementsAre(0, 0, 0));
  EXPECT_THAT(state.tensor("n.running_mean"), ElementsAre(0, 0, 0));
  EXPECT_THAT(state.tensor("n.running_var"), ElementsAre(1, 1, 1));
}

TEST(Norm, TwoWorkersGiveTheBitsOfOneOnLargeArrays) {
  for (const Json& nodes : {node_of("batch_norm"), node_of("group_norm", {{"num_groups", 4}}),
                            node_of("layer_norm", {{"normalized_shape", {16, 28, 28}}})}) {
    SCOPED_TRACE(nodes.dump());
    const auto graph = graph_of({16, 28, 28}, nodes);
    ASSERT_TRUE(graph) << graph.error().message;
    Random random(2);
    const auto size = static_cast<std::size_t>(9 * graph->input_size());
    const std::vector<float> x = gradient_values(size, random);
    const std::vector<float> dy = gradient_values(size, random);
    const StateDict state = gradient_check::state_of(*graph, random);
    std::vector<std::vector<float>> results;
    for (const int count : {1, 2, 3}) {
      Workers workers(count);
      GraphRun run = gradient_check::run_of(*graph, 9, workers);
      const auto y = run.run(state, x, 9, {.training = true});
      std::vector<float> all(y.begin(), y.end());
      StateDict gradient(graph->layout());
      run.backward(dy, gradient);
      run.update_untrained(gradient);
      all.insert(all.end(), gradient.values().begin(), gradient.values().end());
      const auto dx = run.input_gradient("input");
      all.insert(all.end(), dx.begin(), dx.end());
      results.push_back(std::move(all));
    }
    EXPECT_TRUE(results[0] == results[1]);
    EXPECT_TRUE(results[0] == results[2]);
  }
}

TEST(Norm, RefusesWhatDoesNotFitAndSaysWhy) {
  struct Refusal {
    std::string op;
    Shape input;
    Json attributes;
    std::string reason;
  };
  const std::vector<Refusal> refusals{
      {"batch_norm", {2, 2, 2, 2}, Json::object(), "[channels, height, width], got [2, 2, 2, 2]"},
      {"batch_norm", {2}, {{"eps", 0}}, "eps"},
      {"batch_norm", {2}, {{"eps", -1e-5}}, "eps"},
      {"batch_norm", {2}, {{"momentum", 1.5}}, "momentum"},
      {"batch_norm", {2}, {{"momentum", nullptr}}, "momentum"},
      {"batch_norm", {2}, {{"affine", 1}}, "affine"},
      {"batch_norm", {2}, {{"num_features", 2}}, "num_features"},
      {"group_norm", {6, 2}, Json::object(), "num_groups"},
      {"group_norm", {6, 2}, {{"num_groups", 0}}, "num_groups"},
      {"group_norm", {6, 2}, {{"num_groups", -2}}, "num_groups"},
      {"group_norm", {6, 2}, {{"num_groups", 9223372036854775807}}, "num_groups"},
      {"group_norm", {6, 2}, {{"num_groups", 4}}, "num_groups 4, wanted a divisor of the channels"},
      {"group_norm", {6, 2}, {{"num_groups", 12}}, "[6, 2]"},
      {"group_norm", {6, 2}, {{"num_groups", 2}, {"eps", "small"}}, "eps"},
      {"layer_norm", {6, 2}, {{"normalized_shape", {6}}}, "normalized_shape [6]"},
      {"layer_norm", {6, 2}, {{"normalized_shape", {1, 6, 2}}}, "normalized_shape"},
      {"layer_norm", {6, 2}, {{"normalized_shape", Json::array()}}, "normalized_shape"},
      {"layer_norm", {6, 2}, {{"normalized_shape", 2}}, "normalized_shape"},
      {"layer_norm", {6, 2}, {{"normalized_shape", {2.0}}}, "normalized_shape"},
      {"layer_norm", {6, 2}, {{"eps", 2}}, "eps"},
  };
  for (const Refusal& refusal : refusals) {
    const auto graph = graph_of(refusal.input, node_of(refusal.op, refusal.attributes));
    ASSERT_FALSE(graph) << refusal.attributes;
    EXPECT_THAT(graph.error().message, HasSubstr(refusal.reason));
    EXPECT_THAT(graph.error().message, HasSubstr("(n)"));
  }
}

}  // namespace
}  // namespace muster
