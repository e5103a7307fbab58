#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/graph/graph_run.h"
#include "tests/core/graph/gradient_check.h"
#include "tests/core/graph/op_vector_check.h"
#include "tests/support/vectors.h"

namespace muster {
namespace {

Result<Graph> graph_of(const Shape& input, Json node) {
  node["id"] = "n";
  node["op"] = "conv2d";
  return Graph::from_json(
      {{"input", {{"shape", input}}}, {"nodes", {node}}, {"loss", {{"type", "mse"}}}});
}

TEST(Conv2d, EveryCaseOfTheVectorsMatchesTheReference) {
  const Json file = vectors::load("layers_conv.json");
  ASSERT_EQ(file.at("cases").size(), 7U);
  for (const Json& test : file.at("cases")) {
    const Json& settings = test.at("hyperparameters");
    check_op_vector(file, test,
                    {.node = {{"op", "conv2d"},
                              {"filters", settings.at("out")},
                              {"kernel", settings.at("kernel")},
                              {"stride", settings.at("stride")},
                              {"padding", settings.at("padding")}},
                     .parameters = {{"W", "n.weight"}, {"b", "n.bias"}}});
  }
}

struct Grid {
  std::string name;
  Shape input;
  Json node;
};

class Conv2dGradient : public testing::TestWithParam<std::tuple<Grid, int>> {};

TEST_P(Conv2dGradient, EqualsCentralDifferences) {
  const auto& [grid, batch] = GetParam();
  Json node = grid.node;
  node["id"] = "n";
  node["op"] = "conv2d";
  check_gradient({.name = grid.name, .input = grid.input, .nodes = {node}}, batch);
}

const std::vector<Grid> kGrid{
    {"one_pixel", {1, 1, 1}, {{"filters", 1}, {"kernel", 1}}},
    {"pointwise", {3, 4, 5}, {{"filters", 2}, {"kernel", 1}}},
    {"valid", {2, 5, 6}, {{"filters", 3}, {"kernel", 3}}},
    {"same", {2, 5, 4}, {{"filters", 2}, {"kernel", 3}, {"padding", "same"}}},
    {"same_even_kernel", {1, 4, 5}, {{"filters", 2}, {"kernel", {2, 4}}, {"padding", "same"}}},
    {"same_with_stride",
     {1, 7, 6},
     {{"filters", 2}, {"kernel", 3}, {"stride", 2}, {"padding", "same"}}},
    {"stride_that_does_not_divide", {2, 7, 6}, {{"filters", 2}, {"kernel", 3}, {"stride", {2, 3}}}},
    {"stride_over_kernel", {1, 7, 7}, {{"filters", 2}, {"kernel", 2}, {"stride", 3}}},
    {"more_padding_than_window",
     {1, 2, 2},
     {{"filters", 2}, {"kernel", 4}, {"stride", {3, 2}}, {"padding", {3, 1}}}},
    {"groups", {4, 4, 3}, {{"filters", 6}, {"kernel", 3}, {"groups", 2}, {"padding", 1}}},
    {"depthwise", {3, 5, 4}, {{"filters", 3}, {"kernel", 3}, {"groups", 3}, {"padding", "same"}}},
    {"depthwise_multiplied", {2, 4, 4}, {{"filters", 4}, {"kernel", 2}, {"groups", 2}}},
    {"no_bias", {1, 4, 4}, {{"filters", 2}, {"kernel", 2}, {"bias", false}}},
    {"many_filters", {1, 3, 3}, {{"filters", 19}, {"kernel", 2}}},
};
INSTANTIATE_TEST_SUITE_P(Grid, Conv2dGradient,
                         testing::Combine(testing::ValuesIn(kGrid), testing::Values(1, 3)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "_batch" +
                                  std::to_string(std::get<1>(test.param));
                         });

// Sizes past one panel and one block, where the numerical check would take too long.
TEST(Conv2d, LargeImagesMatchTheDefinition) {
  const Result<Graph> graph =
      graph_of({3, 19, 23}, {{"filters", 9}, {"kernel", {5, 3}}, {"padding", {2, 1}}});
  ASSERT_TRUE(graph) << graph.error().message;
  const StateDict state = graph->initial_state(1);
  auto run = GraphRun::create(*graph, {.max_batch = 1});
  ASSERT_TRUE(run);
  Random random(3);
  const auto x = gradient_values(3 * 19 * 23, random);
  const auto y = run->run(state, x, 1, {});
  const auto w = state.tensor("n.weight");
  for (int o = 0; o < 9; ++o) {
    for (int row = 0; row < 19; ++row) {
      for (int column = 0; column < 23; ++column) {
        double want = state.tensor("n.bias")[static_cast<std::size_t>(o)];
        for (int c = 0; c < 3; ++c) {
          for (int i = 0; i < 5; ++i) {
            for (int j = 0; j < 3; ++j) {
              const int h = row + i - 2;
              const int v = column + j - 1;
              if (h < 0 || h >= 19 || v < 0 || v >= 23) continue;
              want += static_cast<double>(x[static_cast<std::size_t>((c * 19 + h) * 23 + v)]) *
                      w[static_cast<std::size_t>(((o * 3 + c) * 5 + i) * 3 + j)];
            }
          }
        }
        ASSERT_NEAR(y[static_cast<std::size_t>((o * 19 + row) * 23 + column)], want, 1e-5);
      }
    }
  }
}

TEST(Conv2d, SameKeepsTheSizeAndWithAStrideRoundsUp) {
  const auto shape = [](const Json& stride) {
    return graph_of({1, 7, 8},
                    {{"filters", 2}, {"kernel", 5}, {"stride", stride}, {"padding", "same"}})
        ->output_shape();
  };
  EXPECT_EQ(shape(1), (Shape{2, 7, 8}));
  EXPECT_EQ(shape(2), (Shape{2, 4, 4}));
  EXPECT_EQ(shape({3, 5}), (Shape{2, 3, 2}));
}

TEST(Conv2d, CountsItsMultiplyAdds) {
  const auto graph = graph_of({4, 6, 6}, {{"filters", 8}, {"kernel", 3}, {"groups", 2}});
  ASSERT_TRUE(graph);
  EXPECT_EQ(graph->nodes()[0].op->multiply_adds(), 4 * 4 * 8 * 2 * 3 * 3);
}

TEST(Conv2d, ReadsBackWhatItWrites) {
  for (const Grid& grid : kGrid) {
    const auto graph = graph_of(grid.input, grid.node);
    ASSERT_TRUE(graph) << grid.name << ": " << graph.error().message;
    const auto again = Graph::from_json(graph->to_json());
    ASSERT_TRUE(again) << grid.name << ": " << again.error().message;
    EXPECT_EQ(again->to_json(), graph->to_json()) << grid.name;
  }
}

struct Refusal {
  Shape input;
  Json node;
  std::string reason;
};

TEST(Conv2d, RefusesWhatDoesNotFitAndSaysWhy) {
  const std::vector<Refusal> refusals{
      {{4, 4}, {{"filters", 1}, {"kernel", 1}}, "image [channels, height, width], got [4, 4]"},
      {{1, 4, 4}, {{"filters", 1}, {"kernel", 5}}, "height of 4"},
      {{1, 9, 4}, {{"filters", 1}, {"kernel", 5}}, "width of 4"},
      {{1, 4, 4}, {{"filters", 1}, {"kernel", 0}}, "kernel"},
      {{1, 4, 4}, {{"filters", 1}, {"kernel", {1, 2, 3}}}, "kernel"},
      {{1, 4, 4}, {{"filters", 1}, {"kernel", 1.5}}, "kernel"},
      {{1, 4, 4}, {{"filters", 1}, {"kernel", 18446744073709551615ULL}}, "kernel"},
      {{1, 4, 4}, {{"filters", 1}, {"kernel", 2}, {"stride", -1}}, "stride"},
      {{1, 4, 4}, {{"filters", 1}, {"kernel", 2}, {"padding", "full"}}, "padding"},
      {{1, 4, 4}, {{"filters", 1}, {"kernel", 2}, {"padding", 2}}, "padding 2"},
      {{3, 4, 4}, {{"filters", 4}, {"kernel", 2}, {"groups", 2}}, "2 groups for 3 channels"},
      {{4, 4, 4}, {{"filters", 3}, {"kernel", 2}, {"groups", 2}}, "and 3 filters"},
      {{1, 4, 4}, {{"filters", 0}, {"kernel", 2}}, "filters"},
      {{1, 4, 4}, {{"filters", 1}, {"kernel", 2}, {"dilation", 2}}, "dilation"},
      {{1 << 20, 1024, 2}, {{"filters", 1}, {"kernel", 65536}, {"padding", 65535}}, "elements"},
  };
  for (const Refusal& refusal : refusals) {
    const auto graph = graph_of(refusal.input, refusal.node);
    ASSERT_FALSE(graph) << refusal.node;
    EXPECT_NE(graph.error().message.find(refusal.reason), std::string::npos)
        << graph.error().message;
    EXPECT_NE(graph.error().message.find("(n)"), std::string::npos) << graph.error().message;
  }
}

}  // namespace
}  // namespace muster
