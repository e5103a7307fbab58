#include "core/graph/ops/standardize.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/graph/graph_run.h"
#include "tests/core/graph/gradient_check.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;

Json graph_json(const Shape& shape, const Json& attributes) {
  Json node{{"id", "scale"}, {"op", "standardize"}};
  node.update(attributes);
  return {{"input", {{"shape", shape}}}, {"nodes", {node}}, {"loss", {{"type", "mse"}}}};
}

std::string error_of(const Shape& shape, const Json& attributes) {
  const auto graph = Graph::from_json(graph_json(shape, attributes));
  return graph ? "no error" : graph.error().message;
}

std::vector<float> forward(const Shape& shape, const Json& attributes, std::int64_t batch,
                           const std::vector<float>& x) {
  const auto graph = Graph::from_json(graph_json(shape, attributes));
  EXPECT_TRUE(graph) << graph.error().message;
  auto run = GraphRun::create(*graph, {.max_batch = batch, .backward = false});
  EXPECT_TRUE(run) << run.error().message;
  const StateDict state(graph->layout());
  const auto y = run->run(state, x, batch, {});
  return {y.begin(), y.end()};
}

TEST(Standardize, TakesTheMeanOffAndDividesByTheDeviation) {
  EXPECT_THAT(forward({2}, {{"mean", {1, -2}}, {"variance", {4, 0.25}}}, 2, {5, -2, 1, 0}),
              ElementsAre(2, 0, 0, 4));
}

TEST(Standardize, AConstantFeatureOnlyLosesItsMean) {
  EXPECT_THAT(forward({2}, {{"mean", {1, 1}}, {"variance", {0, 0}}, {"eps", 0.25}}, 1, {5, 1}),
              ElementsAre(4, 0));
}

TEST(Standardize, EpsIsAddedToTheVariance) {
  EXPECT_THAT(forward({1}, {{"mean", {0}}, {"variance", {3}}, {"eps", 1}}, 1, {6}), ElementsAre(3));
}

TEST(Standardize, AMeanThatIsLargeBesideTheDeviationLosesNothing) {
  const double mean = 100000.004;  // no float32
  const auto y = forward({1}, {{"mean", {mean}}, {"variance", {1e-4}}}, 1, {100000.0078125F});
  EXPECT_THAT(y, ElementsAre(FloatEq(static_cast<float>((100000.0078125 - mean) / 0.01))));
}

TEST(Standardize, OneStateMayServeAChannelOrAll) {
  EXPECT_THAT(
      forward({2, 1, 2}, {{"mean", {1, 10}}, {"variance", {1, 4}}}, 2, {1, 2, 12, 14, 3, 4, 10, 8}),
      ElementsAre(0, 1, 1, 2, 2, 3, 0, -1));
  EXPECT_THAT(forward({2, 2}, {{"mean", {1}}, {"variance", {4}}}, 1, {1, 3, 5, 7}),
              ElementsAre(0, 1, 2, 3));
}

TEST(Standardize, BackwardMultipliesByTheSameScale) {
  for (const Json& each : {Json{{"mean", {1, 2, 3, 4}}, {"variance", {4, 0, 0.25, 1}}},
                           Json{{"mean", {1, 2}}, {"variance", {4, 0.25}}}}) {
    const auto graph = Graph::from_json(graph_json({2, 2}, each));
    ASSERT_TRUE(graph) << graph.error().message;
    GraphRunOptions options;
    options.max_batch = 2;
    options.input_gradients = true;
    auto run = GraphRun::create(*graph, options);
    ASSERT_TRUE(run) << run.error().message;
    const StateDict state(graph->layout());
    const std::vector<float> x(8, 1);
    run->run(state, x, 2, {.training = true});
    const std::vector<float> dy{1, 2, 3, 4, 5, 6, 7, 8};
    StateDict gradient(graph->layout());
    run->backward(dy, gradient);
    const auto dx = run->input_gradient("input");
    const std::vector<float> scale = each["mean"].size() == 4
                                         ? std::vector<float>{0.5F, 1, 2, 1}
                                         : std::vector<float>{0.5F, 0.5F, 2, 2};
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(dx[i], dy[i] * scale[i % 4]) << i;
  }
}

TEST(Standardize, GradientsEqualCentralDifferences) {
  const Json each{{{"mean", {0.5, -1, 2, 0, 0, 1}}, {"variance", {4, 0, 0.25, 1, 2, 3}}},
                  {{"mean", {0.5, -1, 2}}, {"variance", {4, 0, 0.25}}, {"eps", 0.5}},
                  {{"mean", {0.5}}, {"variance", {4}}}};
  for (const Json& state : each) {
    Json node{{"id", "n"}, {"op", "standardize"}};
    node.update(state);
    for (const int batch : {1, 2, 5}) check_gradient({state.dump(), {3, 2}, {node}}, batch);
  }
}

TEST(Standardize, ReadsItsOwnAttributesBack) {
  const Json attributes{{"mean", {0.1, 2}}, {"variance", {1e-300, 3}}, {"eps", 0.25}, {"count", 7}};
  const auto graph = Graph::from_json(graph_json({2}, attributes));
  ASSERT_TRUE(graph) << graph.error().message;
  const Json written = graph->to_json();
  for (const auto& [key, value] : attributes.items()) EXPECT_EQ(written["nodes"][0][key], value);
  EXPECT_EQ(Graph::from_json(written)->to_json(), written);
}

TEST(Standardize, ANodeThatIsNotFittedSaysWhatToDo) {
  EXPECT_THAT(error_of({2}, Json::object()),
              AllOf(HasSubstr("scale"), HasSubstr("no state yet"), HasSubstr("fit")));
  EXPECT_THAT(error_of({2}, {{"per", "channel"}, {"eps", 0.1}}), HasSubstr("no state yet"));
}

TEST(Standardize, RefusesHostileStates) {
  const Json good{{"mean", {0, 0}}, {"variance", {1, 1}}};
  EXPECT_EQ(error_of({2}, good), "no error");
  const std::vector<std::pair<std::string, Json>> changes{{"mean", {0}},
                                                          {"mean", Json::array()},
                                                          {"mean", "x"},
                                                          {"mean", {0, 1e39}},
                                                          {"mean", {0, nullptr}},
                                                          {"mean", {0, true}},
                                                          {"variance", {1, -1}},
                                                          {"variance", {1, 1e78}},
                                                          {"variance", {1, std::nan("")}},
                                                          {"variance", {1, 1e-80}},
                                                          {"variance", {1}},
                                                          {"eps", -1},
                                                          {"eps", 1e300},
                                                          {"count", -1},
                                                          {"per", "all"},
                                                          {"units", 3}};
  for (const auto& [key, value] : changes) {
    Json bad = good;
    bad[key] = value;
    EXPECT_THAT(error_of({2}, bad), HasSubstr("scale")) << bad.dump();
  }
  EXPECT_THAT(error_of({2}, {{"mean", {0, 0}}}), HasSubstr("variance"));
  EXPECT_THAT(error_of({2}, {{"variance", {0, 0}}}), HasSubstr("mean"));
  EXPECT_THAT(error_of({3, 4}, good), AllOf(HasSubstr("12"), HasSubstr("3 (one a channel)")));
}

TEST(Standardize, TakesNoMemoryThatGrowsWithTheShape) {
  EXPECT_EQ(error_of({1 << 15, 1 << 15}, {{"mean", {0}}, {"variance", {1}}}), "no error");
}

}  // namespace
}  // namespace muster
