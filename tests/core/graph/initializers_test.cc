#include "core/graph/initializers.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/base/random.h"
#include "core/graph/graph.h"

namespace muster {
namespace {

using testing::HasSubstr;

Result<Graph> dense_graph(const Json& attributes) {
  Json node{{"id", "n"}, {"op", "dense"}, {"units", 300}};
  node.update(attributes);
  return Graph::from_json(
      {{"input", {{"shape", {100}}}}, {"nodes", Json::array({node})}, {"loss", {{"type", "mse"}}}});
}

struct Spread {
  double deviation = 0;
  double largest = 0;
};

Spread spread_of(std::span<const float> values) {
  Spread spread;
  for (const float value : values) {
    spread.deviation += static_cast<double>(value) * value;
    spread.largest = std::max<double>(spread.largest, std::abs(value));
  }
  spread.deviation = std::sqrt(spread.deviation / static_cast<double>(values.size()));
  return spread;
}

TEST(Initializers, DrawWithTheSpreadOfTheirPapers) {
  struct Wanted {
    std::string init;
    bool uniform;
    double value;  // bound or standard deviation
  };
  const std::vector<Wanted> all{{"pytorch", true, 1 / std::sqrt(100.0)},
                                {"glorot_uniform", true, std::sqrt(6.0 / 400)},
                                {"glorot_normal", false, std::sqrt(2.0 / 400)},
                                {"he_uniform", true, std::sqrt(6.0 / 100)},
                                {"he_normal", false, std::sqrt(2.0 / 100)},
                                {"zeros", true, 0}};
  for (const Wanted& wanted : all) {
    SCOPED_TRACE(wanted.init);
    const auto graph = dense_graph({{"init", wanted.init}});
    ASSERT_TRUE(graph) << graph.error().message;
    const StateDict state = graph->initial_state(3);
    const Spread weight = spread_of(state.tensor("n.weight"));
    const double deviation = wanted.uniform ? wanted.value / std::sqrt(3.0) : wanted.value;
    // 30,000 values: a standard error of 0.4 percent.
    EXPECT_NEAR(weight.deviation, deviation, 0.02 * deviation);
    if (wanted.uniform) {
      EXPECT_LE(weight.largest, wanted.value * (1 + 1e-6));
    } else {
      EXPECT_GT(weight.largest, 3 * wanted.value) << "normal ones are not truncated";
    }
    const Spread bias = spread_of(state.tensor("n.bias"));
    EXPECT_EQ(bias.largest > 0, wanted.init == "pytorch");
    EXPECT_EQ(graph->to_json()["nodes"][0]["init"], wanted.init);
  }
}

// The default is what graphs without the attribute have always had, to the bit.
TEST(Initializers, TheDefaultIsUniformByTheInputsForWeightAndBias) {
  const auto graph = dense_graph(Json::object());
  ASSERT_TRUE(graph);
  const StateDict state = graph->initial_state(11);
  EXPECT_TRUE(state == dense_graph({{"init", "pytorch"}})->initial_state(11));
  for (const std::string name : {"n.bias", "n.weight"}) {
    Random random(derive_seed(11, {"init", name}));
    for (const float value : state.tensor(name)) {
      ASSERT_EQ(value, static_cast<float>((2.0 * random.uniform() - 1.0) *
                                          (1.0 / std::sqrt(static_cast<double>(100)))));
    }
  }
}

TEST(Initializers, AnUnknownOneIsRefusedListingTheKnownOnes) {
  for (const Json& init : {Json("xavier"), Json(3), Json(nullptr)}) {
    const auto graph = dense_graph({{"init", init}});
    ASSERT_FALSE(graph);
    EXPECT_THAT(graph.error().message, HasSubstr("init"));
  }
  EXPECT_THAT(dense_graph({{"init", "xavier"}}).error().message, HasSubstr("glorot_uniform"));
}

}  // namespace
}  // namespace muster
