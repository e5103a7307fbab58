#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <string>

#include "core/base/random.h"
#include "core/graph/graph_run.h"

// What the simple ops compute, against their formulas in double; and what they refuse.
namespace muster {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;

Result<Graph> graph_of(const Shape& input, Json node) {
  node["id"] = "n";
  return Graph::from_json({{"input", {{"shape", input}}},
                           {"nodes", Json::array({std::move(node)})},
                           {"loss", {{"type", "mse"}}}});
}

struct Computed {
  Shape shape;
  std::vector<float> y;
  std::vector<float> dx;
};

// With an output gradient of 1, 2, 3, ...
Computed compute(const Result<Graph>& graph, const std::vector<float>& x, std::int64_t batch = 1,
                 const GraphRun::Mode& mode = {}) {
  EXPECT_TRUE(graph) << graph.error().message;
  GraphRunOptions options;
  options.max_batch = batch;
  options.input_gradients = true;
  auto run = GraphRun::create(*graph, options);
  const auto y = run->run(StateDict(graph->layout()), x, batch, mode);
  std::vector<float> dy(y.size());
  for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(i + 1);
  StateDict none(graph->layout());
  Computed result{graph->output_shape(), {y.begin(), y.end()}, {}};
  run->backward(dy, none);
  const auto dx = run->input_gradient("input");
  result.dx.assign(dx.begin(), dx.end());
  return result;
}

struct Function {
  Json node;
  double (*value)(double);
  double (*slope)(double);
};

double density(double x) {
  return std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}
double distribution(double x) {
  return std::erfc(-x / std::sqrt(2.0)) / 2;
}
double gelu_inner(double x) {
  return std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
}

const std::vector<Function> kFunctions{
    {{{"op", "relu"}},
     [](double x) { return x > 0 ? x : 0; },
     [](double x) { return x > 0 ? 1.0 : 0.0; }},
    {{{"op", "leaky_relu"}},
     [](double x) { return x > 0 ? x : 0.01 * x; },
     [](double x) { return x > 0 ? 1.0 : 0.01; }},
    {{{"op", "leaky_relu"}, {"negative_slope", -0.5}},
     [](double x) { return x > 0 ? x : -0.5 * x; },
     [](double x) { return x > 0 ? 1.0 : -0.5; }},
    {{{"op", "tanh"}},
     [](double x) { return std::tanh(x); },
     [](double x) { return 1 - std::tanh(x) * std::tanh(x); }},
    {{{"op", "sigmoid"}},
     [](double x) { return 1 / (1 + std::exp(-x)); },
     [](double x) { return 1 / (1 + std::exp(-x)) / (1 + std::exp(x)); }},
    {{{"op", "gelu"}},
     [](double x) { return x * distribution(x); },
     [](double x) { return distribution(x) + x * density(x); }},
    {{{"op", "gelu"}, {"approximate", "tanh"}},
     [](double x) { return 0.5 * x * (1 + std::tanh(gelu_inner(x))); },
     [](double x) {
       const double t = std::tanh(gelu_inner(x));
       const double inner = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
       return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
     }},
};

TEST(Activation, EqualsItsFormulaFromMinus30To30) {
  // A length that fills no vector, and more than one part for workers.
  std::vector<float> x(60001);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 1e-3F - 30;
  for (const Function& function : kFunctions) {
    SCOPED_TRACE(function.node.dump());
    const Computed got = compute(graph_of({60001}, function.node), x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = function.value(x[i]);
      ASSERT_NEAR(got.y[i], want, 2e-7 + 1e-6 * std::abs(want)) << x[i];
      const double slope = function.slope(x[i]);
      const double dy = static_cast<double>(i + 1);
      ASSERT_NEAR(got.dx[i] / dy, slope, 1e-6 + 2e-6 * std::abs(slope)) << x[i];
    }
  }
}

TEST(Activation, AnElementDoesNotDependOnItsPlace) {
  Random random(4);
  std::vector<float> x(77);
  for (float& value : x) value = static_cast<float>(random.normal());
  for (const Function& function : kFunctions) {
    SCOPED_TRACE(function.node.dump());
    const auto graph = graph_of({1}, function.node);
    const Computed all = compute(graph, x, 77);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(compute(graph, {x[i]}).y[0], all.y[i]);
    }
  }
}

TEST(Softmax, EqualsItsFormulaInEveryRow) {
  for (const std::int64_t width : {1, 2, 10, 33}) {
    constexpr std::int64_t kBatch = 3;
    const auto graph = graph_of({2, width}, {{"op", "softmax"}});
    Random random(4);
    std::vector<float> x(static_cast<std::size_t>(kBatch * 2 * width));
    for (float& value : x) value = static_cast<float>(50 * random.normal());
    const Computed got = compute(graph, x, kBatch);
    const auto n = static_cast<std::size_t>(width);
    for (std::size_t row = 0; row < kBatch * 2; ++row) {
      double top = -1e30;
      for (std::size_t i = 0; i < n; ++i) top = std::max<double>(top, x[row * n + i]);
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += std::exp(x[row * n + i] - top);
      double mean = 0;
      const auto y = [&](std::size_t i) { return std::exp(x[row * n + i] - top) / sum; };
      for (std::size_t i = 0; i < n; ++i) mean += y(i) * static_cast<double>(row * n + i + 1);
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_NEAR(got.y[row * n + i], y(i), 1e-6);
        const double want = y(i) * (static_cast<double>(row * n + i + 1) - mean);
        EXPECT_NEAR(got.dx[row * n + i], want, 1e-4);
      }
    }
  }
}

TEST(Softmax, LargeValuesDoNotOverflow) {
  const auto graph = graph_of({3}, {{"op", "softmax"}});
  EXPECT_THAT(compute(graph, {3e38F, -3e38F, 3e38F}).y,
              ElementsAre(0.5F, FloatNear(0, 1e-30F), 0.5F));
}

TEST(Concat, PutsItsInputsSideBySide) {
  Json json{
      {"input", {{"shape", {2, 2}}}},
      {"nodes", {{{"id", "n"}, {"op", "concat"}, {"axis", 1}, {"inputs", {"input", "input"}}}}},
      {"loss", {{"type", "mse"}}}};
  Computed got = compute(Graph::from_json(json), {1, 2, 3, 4});
  EXPECT_EQ(got.shape, (Shape{2, 4}));
  EXPECT_THAT(got.y, ElementsAre(1, 2, 1, 2, 3, 4, 3, 4));
  EXPECT_THAT(got.dx, ElementsAre(1 + 3, 2 + 4, 5 + 7, 6 + 8));
  json["nodes"][0]["axis"] = -2;
  got = compute(Graph::from_json(json), {1, 2, 3, 4});
  EXPECT_EQ(got.shape, (Shape{4, 2}));
  EXPECT_THAT(got.y, ElementsAre(1, 2, 3, 4, 1, 2, 3, 4));
  EXPECT_EQ(Graph::from_json(json)->to_json()["nodes"][0]["axis"], 0);
}

TEST(Concat, TakesInputsOfOtherLengthsForEachExample) {
  const auto graph = Graph::from_json(
      {{"input", {{"shape", {4}}}},
       {"nodes",
        {{{"id", "a"}, {"op", "reshape"}, {"shape", {2, 2}}},
         {{"id", "b"}, {"op", "reshape"}, {"shape", {1, 4}}, {"inputs", {"input"}}},
         {{"id", "c"}, {"op", "reshape"}, {"shape", {2, -1}}, {"inputs", {"b"}}},
         {{"id", "d"}, {"op", "concat"}, {"axis", 1}, {"inputs", {"a", "c"}}},
         {{"id", "n"}, {"op", "concat"}, {"axis", -1}, {"inputs", {"d", "a"}}}}},
       {"loss", {{"type", "mse"}}}});
  const Computed got = compute(graph, {1, 2, 3, 4, 5, 6, 7, 8}, 2);
  EXPECT_EQ(got.shape, (Shape{2, 6}));
  EXPECT_THAT(got.y, ElementsAre(1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4,  //
                                 5, 6, 5, 6, 5, 6, 7, 8, 7, 8, 7, 8));
}

TEST(Multiply, IsTheProductAndItsGradientHoldsAtZero) {
  const auto graph = Graph::from_json(
      {{"input", {{"shape", {3}}}},
       {"nodes", {{{"id", "n"}, {"op", "multiply"}, {"inputs", {"input", "input", "input"}}}}},
       {"loss", {{"type", "mse"}}}});
  const Computed got = compute(graph, {2, 0, -3});
  EXPECT_THAT(got.y, ElementsAre(8, 0, -27));
  EXPECT_THAT(got.dx, ElementsAre(12, 0, 81));
}

TEST(Reshape, KeepsTheElementsAndFindsTheOpenDimension) {
  const auto graph = graph_of({2, 6}, {{"op", "reshape"}, {"shape", {3, -1, 2}}});
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const Computed got = compute(graph, x);
  EXPECT_EQ(got.shape, (Shape{3, 2, 2}));
  EXPECT_EQ(got.y, x);
  EXPECT_EQ(got.dx, x);
  EXPECT_EQ(graph->to_json()["nodes"][0]["shape"], (Json{3, 2, 2}));
}

TEST(Dropout, KeepsTheExpectationAndDropsAsManyAsAsked) {
  const auto graph = graph_of({100000}, {{"op", "dropout"}, {"p", 0.3}});
  const Computed got = compute(graph, std::vector(100000, 1.0F), 1, {.training = true, .seed = 9});
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < got.y.size(); ++i) {
    dropped += got.y[i] == 0 ? 1 : 0;
    if (got.y[i] != 0) {
      EXPECT_FLOAT_EQ(got.y[i], 1 / 0.7F);
    }
    EXPECT_FLOAT_EQ(got.dx[i], got.y[i] * static_cast<float>(i + 1));
  }
  // Five standard deviations.
  EXPECT_NEAR(static_cast<double>(dropped), 30000, 5 * std::sqrt(100000 * 0.21));
}

TEST(Dropout, TheMaskIsThatOfTheSeedWhateverTheWorkers) {
  const auto graph = graph_of({30001}, {{"op", "dropout"}});
  ASSERT_TRUE(graph);
  const std::vector<float> x(3 * 30001, 1.0F);
  const auto mask = [&](int count, std::uint64_t seed) {
    Workers workers(count);
    GraphRunOptions options;
    options.max_batch = 3;
    options.workers = &workers;
    auto run = GraphRun::create(*graph, options);
    const auto y = run->run(StateDict(graph->layout()), x, 3, {.training = true, .seed = seed});
    return std::vector<float>(y.begin(), y.end());
  };
  const std::vector<float> one = mask(1, 5);
  EXPECT_TRUE(mask(2, 5) == one);
  EXPECT_TRUE(mask(3, 5) == one);
  EXPECT_FALSE(mask(1, 6) == one);
  // No block repeats another's stream.
  EXPECT_FALSE(std::equal(one.begin(), one.begin() + 8192, one.begin() + 8192));
}

TEST(SimpleOps, RefuseWhatDoesNotFitAndSayWhy) {
  struct Refusal {
    Shape input;
    Json node;
    std::string reason;
  };
  const Json twice = {"input", "input"};
  const std::vector<Refusal> refusals{
      {{4}, {{"op", "leaky_relu"}, {"negative_slope", "x"}}, "negative_slope"},
      {{4}, {{"op", "leaky_relu"}, {"negative_slope", 1e300}}, "negative_slope"},
      {{4}, {{"op", "gelu"}, {"approximate", "fast"}}, "none, tanh"},
      {{4}, {{"op", "gelu"}, {"approximate", true}}, "approximate"},
      {{4}, {{"op", "dropout"}, {"p", 1}}, "p"},
      {{4}, {{"op", "dropout"}, {"p", -0.1}}, "p"},
      {{4}, {{"op", "softmax"}, {"dim", 1}}, "dim"},
      {{4}, {{"op", "concat"}, {"axis", 1}, {"inputs", twice}}, "axis"},
      {{4}, {{"op", "concat"}, {"axis", -2}, {"inputs", twice}}, "axis"},
      {{4}, {{"op", "concat"}, {"axis", 9223372036854775807}, {"inputs", twice}}, "axis"},
      {{4}, {{"op", "concat"}, {"axis", 0.5}, {"inputs", twice}}, "axis"},
      {{4}, {{"op", "multiply"}, {"inputs", {"input"}}}, "got 1 inputs, wanted 2 to 64"},
      {{4}, {{"op", "reshape"}}, "shape"},
      {{4}, {{"op", "reshape"}, {"shape", 4}}, "shape"},
      {{4}, {{"op", "reshape"}, {"shape", Json::array()}}, "shape"},
      {{4}, {{"op", "reshape"}, {"shape", {2, 3}}}, "[2, 3], wanted one for the 4 elements of [4]"},
      {{4}, {{"op", "reshape"}, {"shape", {3, -1}}}, "[3, -1], wanted one for the 4 elements"},
      {{4}, {{"op", "reshape"}, {"shape", {8, -1}}}, "[8, -1], wanted one for the 4 elements"},
      {{4}, {{"op", "reshape"}, {"shape", {-1, -1}}}, "shape"},
      {{4}, {{"op", "reshape"}, {"shape", {0, -1}}}, "shape"},
      {{4}, {{"op", "reshape"}, {"shape", {-2, -2}}}, "shape"},
      {{4}, {{"op", "reshape"}, {"shape", {4.0}}}, "shape"},
      {{4}, {{"op", "reshape"}, {"shape", {18446744073709551615ULL, 2, 2}}}, "shape"},
      {{4}, {{"op", "reshape"}, {"shape", {1, 1, 1, 1, 1, 1, 1, 1, 4}}}, "shape"},
      {{4}, {{"op", "reshape"}, {"shape", {2147483648, 2147483648, 2147483648, 4}}}, "elements"},
  };
  for (const Refusal& refusal : refusals) {
    const auto graph = graph_of(refusal.input, refusal.node);
    ASSERT_FALSE(graph) << refusal.node;
    EXPECT_THAT(graph.error().message, HasSubstr(refusal.reason)) << refusal.node;
    EXPECT_THAT(graph.error().message, HasSubstr("(n)")) << refusal.node;
  }
}

TEST(SimpleOps, InputsOfOtherShapesAreRefusedNamingBoth) {
  for (const std::string op : {"add", "multiply", "concat"}) {
    const auto graph = Graph::from_json({{"input", {{"shape", {2, 3}}}},
                                         {"nodes",
                                          {{{"id", "a"}, {"op", "reshape"}, {"shape", {3, 2}}},
                                           {{"id", "n"}, {"op", op}, {"inputs", {"input", "a"}}}}},
                                         {"loss", {{"type", "mse"}}}});
    ASSERT_FALSE(graph);
    EXPECT_THAT(graph.error().message, HasSubstr("[2, 3] and [3, 2]"));
    EXPECT_THAT(graph.error().message, HasSubstr(op));
  }
}

}  // namespace
}  // namespace muster
