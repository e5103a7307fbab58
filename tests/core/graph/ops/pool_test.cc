#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/core/graph/gradient_check.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Json pool(const std::string& op, const Json& attributes) {
  Json node = attributes;
  node["id"] = "n";
  node["op"] = op;
  return node;
}

Result<Graph> graph_of(const Shape& input, const Json& node) {
  return Graph::from_json(
      {{"input", {{"shape", input}}}, {"nodes", Json::array({node})}, {"loss", {{"type", "mse"}}}});
}

struct Window {
  std::string name;
  Shape input;
  Json attributes;
};

std::ostream& operator<<(std::ostream& out, const Window& window) {
  return out << window.name;
}

const std::vector<Window> kWindows{
    {"halves", {2, 4, 6}, {{"kernel", 2}}},
    {"halves_of_odd", {2, 5, 7}, {{"kernel", 2}}},
    {"halves_of_eight", {1, 4, 16}, {{"kernel", 2}}},
    {"halves_of_more_than_eight", {1, 2, 28}, {{"kernel", 2}}},
    {"halves_of_seven", {3, 2, 14}, {{"kernel", 2}}},
    {"halves_with_same", {1, 5, 5}, {{"kernel", 2}, {"padding", "same"}}},
    {"one", {2, 3, 3}, {{"kernel", 1}}},
    {"steps_of_one", {1, 4, 5}, {{"kernel", 2}, {"stride", 1}}},
    {"overlapping", {2, 7, 6}, {{"kernel", 3}, {"stride", 2}, {"padding", 1}}},
    {"same", {1, 5, 6}, {{"kernel", 3}, {"stride", 1}, {"padding", "same"}}},
    {"gaps", {1, 8, 9}, {{"kernel", 2}, {"stride", 3}}},
    {"oblong", {2, 5, 8}, {{"kernel", {3, 2}}, {"stride", {1, 3}}, {"padding", {1, 0}}}},
    {"oblong_other", {1, 6, 5}, {{"kernel", {1, 4}}, {"stride", {2, 1}}, {"padding", {0, 2}}}},
    {"whole", {2, 3, 5}, {{"kernel", {3, 5}}}},
    {"larger_than_the_image", {1, 3, 3}, {{"kernel", 5}, {"padding", 2}}},
    {"wide", {1, 2, 300}, {{"kernel", {2, 150}}, {"stride", {1, 75}}}},
};

class Pooling : public testing::TestWithParam<std::tuple<std::string, Window, int>> {};

TEST_P(Pooling, GradientEqualsCentralDifferences) {
  const auto& [op, window, batch] = GetParam();
  check_gradient({.name = window.name,
                  .input = window.input,
                  .nodes = Json::array({pool(op, window.attributes)}),
                  .spread = true,
                  .tolerance = op == "avg_pool2d" ? 4e-3 : 2e-2},
                 batch);
}

struct Sides {
  std::int64_t kernel, stride, before, size, out;
};

// By the definition, in double: the window of each output clipped to the image.
std::vector<double> reference(const std::string& op, const Window& window, const Shape& out,
                              const Json& canonical, std::span<const float> x, bool include_pad) {
  Sides sides[2];
  for (std::size_t d = 0; d < 2; ++d) {
    Sides& s = sides[d];
    s = {.kernel = canonical["kernel"][d],
         .stride = canonical["stride"][d],
         .before = 0,
         .size = window.input[d + 1],
         .out = out[d + 1]};
    if (canonical["padding"] == "same") {
      s.before = std::max<std::int64_t>(0, (s.out - 1) * s.stride + s.kernel - s.size) / 2;
    } else {
      s.before = canonical["padding"][d];
    }
  }
  const auto planes = static_cast<std::int64_t>(x.size()) / sides[0].size / sides[1].size;
  std::vector<double> y;
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    for (std::int64_t i = 0; i < sides[0].out * sides[1].out; ++i) {
      const std::int64_t top = i / sides[1].out * sides[0].stride - sides[0].before;
      const std::int64_t left = i % sides[1].out * sides[1].stride - sides[1].before;
      double largest = -std::numeric_limits<double>::infinity();
      double sum = 0;
      std::int64_t count = 0;
      for (std::int64_t row = top; row < top + sides[0].kernel; ++row) {
        for (std::int64_t column = left; column < left + sides[1].kernel; ++column) {
          if (row < 0 || row >= sides[0].size || column < 0 || column >= sides[1].size) continue;
          const auto at =
              static_cast<std::size_t>((plane * sides[0].size + row) * sides[1].size + column);
          largest = std::max(largest, static_cast<double>(x[at]));
          sum += static_cast<double>(x[at]);
          ++count;
        }
      }
      if (include_pad) count = sides[0].kernel * sides[1].kernel;
      y.push_back(op == "max_pool2d" ? largest : sum / static_cast<double>(count));
    }
  }
  return y;
}

TEST_P(Pooling, EqualsTheDefinition) {
  const auto& [op, window, batch] = GetParam();
  for (const bool include_pad : {true, false}) {
    Json attributes = window.attributes;
    if (op == "avg_pool2d") attributes["count_include_pad"] = include_pad;
    const auto graph = graph_of(window.input, pool(op, attributes));
    ASSERT_TRUE(graph) << graph.error().message;
    auto run = GraphRun::create(*graph, {.max_batch = batch});
    ASSERT_TRUE(run);
    Random random(3);
    const std::vector<float> x =
        gradient_values(static_cast<std::size_t>(batch * graph->input_size()), random);
    const auto y = run->run(StateDict(graph->layout()), x, batch, {});
    const std::vector<double> want =
        reference(op, window, graph->output_shape(), graph->to_json()["nodes"][0], x, include_pad);
    ASSERT_EQ(y.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(y[i], want[i], 1e-6) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Grid, Pooling,
                         testing::Combine(testing::Values("max_pool2d", "avg_pool2d"),
                                          testing::ValuesIn(kWindows), testing::Values(1, 2, 3)),
                         [](const auto& entry) {
                           return std::get<0>(entry.param) + "_" + std::get<1>(entry.param).name +
                                  "_batch_" + std::to_string(std::get<2>(entry.param));
                         });

// Output and input gradient (of an output gradient of ones) of one image.
struct Pooled {
  std::vector<float> y;
  std::vector<float> dx;
};

Pooled max_of(const Shape& input, const Json& attributes, const std::vector<float>& x) {
  const auto graph = graph_of(input, pool("max_pool2d", attributes));
  EXPECT_TRUE(graph) << graph.error().message;
  GraphRunOptions options;
  options.input_gradients = true;
  auto run = GraphRun::create(*graph, options);
  const auto y = run->run(StateDict(graph->layout()), x, 1, {.training = true});
  Pooled result{{y.begin(), y.end()}, {}};
  StateDict none(graph->layout());
  run->backward(std::vector<float>(y.size(), 1.0F), none);
  const auto dx = run->input_gradient("input");
  result.dx.assign(dx.begin(), dx.end());
  return result;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(MaxPool2d, TheFirstOfEqualElementsHasTheGradient) {
  EXPECT_THAT(max_of({1, 2, 2}, {{"kernel", 2}}, {1, 1, 1, 1}).dx, ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(max_of({1, 2, 2}, {{"kernel", 2}}, {0, 1, 1, 1}).dx, ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(max_of({1, 1, 3}, {{"kernel", {1, 3}}}, {0, 2, 2}).dx, ElementsAre(0, 1, 0));
  const std::vector<float> ones(400, 1.0F);
  EXPECT_EQ(max_of({1, 20, 20}, {{"kernel", 20}}, ones).dx[0], 1.0F);
  // A wide one, whose windows are looked at eight at a time.
  const std::vector<float> dx = max_of({1, 2, 32}, {{"kernel", 2}}, std::vector(64, 1.0F)).dx;
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(dx[i], i < 32 && i % 2 == 0 ? 1.0F : 0.0F) << i;
}

TEST(MaxPool2d, PaddingIsMinusInfinityAndNeverHasTheGradient) {
  const Json attributes{{"kernel", 2}, {"stride", 1}, {"padding", 1}};
  const Pooled low = max_of({1, 1, 1}, attributes, {-kInfinity});
  EXPECT_THAT(low.y, testing::Each(-kInfinity));
  EXPECT_THAT(low.dx, ElementsAre(4));
  EXPECT_THAT(max_of({1, 1, 1}, attributes, {-7}).y, ElementsAre(-7, -7, -7, -7));
}

TEST(MaxPool2d, ANanIsTheMaximumAndHasTheGradient) {
  for (std::size_t place = 0; place < 4; ++place) {
    std::vector<float> x{1, 2, 3, 4};
    x[place] = kNan;
    const Pooled pooled = max_of({1, 2, 2}, {{"kernel", 2}}, x);
    EXPECT_TRUE(std::isnan(pooled.y[0])) << place;
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(pooled.dx[i], i == place ? 1.0F : 0.0F);
    const Pooled other = max_of({1, 1, 4}, {{"kernel", {1, 4}}}, x);
    EXPECT_TRUE(std::isnan(other.y[0])) << place;
    EXPECT_EQ(other.dx[place], 1.0F);
  }
  std::vector<float> x(400, 1.0F);
  x[123] = kNan;
  const Pooled large = max_of({1, 20, 20}, {{"kernel", 20}}, x);
  EXPECT_TRUE(std::isnan(large.y[0]));
  EXPECT_EQ(large.dx[123], 1.0F);
}

TEST(MaxPool2d, KeepsAByteForEachOutput) {
  const auto graph = graph_of({32, 28, 28}, pool("max_pool2d", {{"kernel", 2}}));
  ASSERT_TRUE(graph);
  EXPECT_EQ(graph->node(0).op->plan().saved_per_example, 32 * 14 * 14 / 4);
}

TEST(Pool, DefaultsAreWrittenOut) {
  const auto graph = graph_of({2, 9, 9}, pool("avg_pool2d", {{"kernel", {3, 2}}}));
  ASSERT_TRUE(graph);
  const Json wanted{
      {"id", "n"},        {"op", "avg_pool2d"}, {"inputs", {"input"}},      {"kernel", {3, 2}},
      {"stride", {3, 2}}, {"padding", {0, 0}},  {"count_include_pad", true}};
  EXPECT_EQ(graph->to_json()["nodes"][0], wanted);
}

TEST(GlobalAvgPool, IsTheMeanOfEachChannelWhateverTheRank) {
  for (const Shape& shape : {Shape{2, 6}, Shape{2, 2, 3}, Shape{2, 1, 3, 2}}) {
    const auto graph = graph_of(shape, pool("global_avg_pool", Json::object()));
    ASSERT_TRUE(graph) << graph.error().message;
    EXPECT_EQ(graph->output_shape(), (Shape{2}));
    auto run = GraphRun::create(*graph, {.max_batch = 1});
    const std::vector<float> x{1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6};
    EXPECT_THAT(run->run(StateDict(graph->layout()), x, 1, {}), ElementsAre(3.5F, -3.5F));
  }
}

struct Refusal {
  Shape input;
  Json attributes;
  std::string reason;
};

TEST(Pool, RefusesWhatDoesNotFitAndSaysWhy) {
  const std::vector<Refusal> refusals{
      {{4, 4}, {{"kernel", 2}}, "[channels, height, width], got [4, 4]"},
      {{1, 4, 4}, Json::object(), "kernel"},
      {{1, 4, 4}, {{"kernel", 0}}, "kernel"},
      {{1, 4, 4}, {{"kernel", -3}}, "kernel"},
      {{1, 4, 4}, {{"kernel", "2"}}, "kernel"},
      {{1, 4, 4}, {{"kernel", nullptr}}, "kernel"},
      {{1, 4, 4}, {{"kernel", {2, 2, 2}}}, "kernel"},
      {{1, 4, 4}, {{"kernel", 2.5}}, "kernel"},
      {{1, 4, 4}, {{"kernel", 9223372036854775807}}, "9223372036854775807"},
      {{1, 4, 4}, {{"kernel", 18446744073709551615ULL}}, "18446744073709551615"},
      {{1, 4, 4}, {{"kernel", 2}, {"stride", 0}}, "stride"},
      {{1, 4, 4}, {{"kernel", 2}, {"stride", 9223372036854775807}}, "stride"},
      {{1, 4, 4}, {{"kernel", 2}, {"padding", -1}}, "padding"},
      {{1, 4, 4}, {{"kernel", 3}, {"padding", 2}}, "padding 2, wanted at most half of the"},
      {{1, 4, 4}, {{"kernel", {4, 2}}, {"padding", 2}}, "padding 2, wanted at most half of the"},
      {{1, 4, 4}, {{"kernel", 5}}, "height of 4"},
      {{1, 8, 4}, {{"kernel", 5}}, "width of 4"},
      {{1, 4, 4}, {{"kernel", 2}, {"ceil_mode", true}}, "ceil_mode"},
  };
  for (const std::string op : {"max_pool2d", "avg_pool2d"}) {
    for (const Refusal& refusal : refusals) {
      const auto graph = graph_of(refusal.input, pool(op, refusal.attributes));
      ASSERT_FALSE(graph) << refusal.attributes;
      EXPECT_THAT(graph.error().message, HasSubstr(refusal.reason));
      EXPECT_THAT(graph.error().message, HasSubstr("(n)"));
    }
  }
  const auto graph = graph_of({4}, pool("global_avg_pool", Json::object()));
  ASSERT_FALSE(graph);
  EXPECT_THAT(graph.error().message, HasSubstr("two dimensions, got [4]"));
}

// The largest that are allowed: a window far over the image's bounds costs no more than the image.
TEST(Pool, HugeWindowsAndStridesTakeNeitherMemoryNorTime) {
  for (const std::string op : {"max_pool2d", "avg_pool2d"}) {
    for (const Json& attributes :
         {Json{{"kernel", 65536}, {"padding", 32768}}, Json{{"kernel", 1}, {"stride", 65536}},
          Json{{"kernel", 65536}, {"stride", 1}, {"padding", "same"}}}) {
      check_gradient({.name = op,
                      .input = {1, 3, 4},
                      .nodes = Json::array({pool(op, attributes)}),
                      .spread = true,
                      .tolerance = 2e-2},
                     2);
    }
  }
  const auto graph = graph_of({1 << 20, 1024, 1}, pool("max_pool2d", {{"kernel", 1}}));
  ASSERT_TRUE(graph) << graph.error().message;
  const auto run = GraphRun::create(*graph, {.max_batch = 1 << 20});
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace muster
