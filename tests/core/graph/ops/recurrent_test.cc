#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/graph/graph_run.h"
#include "tests/core/graph/gradient_check.h"
#include "tests/core/graph/recurrent_reference.h"

// lstm and gru as nodes of a graph. Their single layers are tested in recurrent_layer_test.cc.
namespace muster {
namespace {

using testing::HasSubstr;

Json node_of(const std::string& op, std::int64_t units, const Json& more = Json::object()) {
  Json node{{"id", "n"}, {"op", op}, {"units", units}};
  node.update(more);
  return node;
}

Result<Graph> graph_of(const Json& node, const Shape& input) {
  return Graph::from_json(
      {{"input", {{"shape", input}}}, {"nodes", {node}}, {"loss", {{"type", "mse"}}}});
}

Graph made(const Json& node, const Shape& input) {
  Result<Graph> graph = graph_of(node, input);
  EXPECT_TRUE(graph) << graph.error().message;
  return *std::move(graph);
}

GraphRun run_of(const Graph& graph, std::int64_t batch, Workers* workers = nullptr) {
  GraphRunOptions options;
  options.max_batch = batch;
  options.input_gradients = true;
  options.workers = workers;
  Result<GraphRun> run = GraphRun::create(graph, options);
  EXPECT_TRUE(run) << run.error().message;
  return *std::move(run);
}

std::vector<float> values_of(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

std::vector<float> copied(std::span<const float> values) {
  return {values.begin(), values.end()};
}

class RecurrentGradient : public testing::TestWithParam<
                              std::tuple<std::string, std::int64_t, std::int64_t, bool, int>> {};

TEST_P(RecurrentGradient, EqualsCentralDifferences) {
  const auto& [op, steps, layers, sequences, batch] = GetParam();
  check_gradient({.name = op,
                  .input = {steps, 3},
                  .nodes = {node_of(op, 5, {{"layers", layers}, {"return_sequences", sequences}})}},
                 batch);
}

INSTANTIATE_TEST_SUITE_P(Grid, RecurrentGradient,
                         testing::Combine(testing::Values("lstm", "gru"), testing::Values(1, 2, 5),
                                          testing::Values(1, 2), testing::Bool(),
                                          testing::Values(1, 3)),
                         [](const auto& entry) {
                           return std::get<0>(entry.param) + "_T" +
                                  std::to_string(std::get<1>(entry.param)) + "_layers" +
                                  std::to_string(std::get<2>(entry.param)) +
                                  (std::get<3>(entry.param) ? "_all" : "_last") + "_batch" +
                                  std::to_string(std::get<4>(entry.param));
                         });

class Recurrent : public testing::TestWithParam<std::string> {
 protected:
  Json node(std::int64_t units, const Json& more = Json::object()) const {
    return node_of(GetParam(), units, more);
  }
};

INSTANTIATE_TEST_SUITE_P(Ops, Recurrent, testing::Values("lstm", "gru"),
                         [](const auto& entry) { return entry.param; });

// Sizes that fill no vector and several panels of the products; more rows than a chunk has.
TEST_P(Recurrent, OutputsAndGradientsFollowTheDoublePrecisionReference) {
  for (const bool bias : {true, false}) {
    for (const std::int64_t layers : {1, 3}) {
      SCOPED_TRACE("layers " + std::to_string(layers));
      constexpr std::int64_t kBatch = 3;
      const recurrent_reference::Sizes sizes{.lstm = GetParam() == "lstm",
                                             .steps = 7,
                                             .in = 11,
                                             .units = 53,
                                             .layers = static_cast<std::size_t>(layers)};
      const Graph graph = made(node(53, {{"layers", layers}, {"bias", bias}}), {7, 11});
      StateDict state = graph.initial_state(3);
      std::vector<float> x = values_of(kBatch * 7 * 11, 4);
      const std::vector<float> direction = values_of(kBatch * 7 * 53, 5);
      const auto reference = [&](std::size_t b) {
        recurrent_reference::Parameters parameters;
        for (const TensorSpec& tensor : graph.layout()->tensors()) {
          const auto values = state.tensor(tensor);
          parameters[tensor.name.substr(2)] = {values.begin(), values.end()};
        }
        std::vector<std::vector<double>> sequence;
        for (std::size_t t = 0; t < 7; ++t) {
          const auto from = x.begin() + static_cast<std::ptrdiff_t>((b * 7 + t) * 11);
          sequence.emplace_back(from, from + 11);
        }
        return recurrent_reference::outputs(sizes, parameters, sequence);
      };
      GraphRun run = run_of(graph, kBatch);
      const std::vector<float> y = copied(run.run(state, x, kBatch, {.training = true}));
      for (std::size_t b = 0; b < kBatch; ++b) {
        const auto want = reference(b);
        for (std::size_t i = 0; i < std::size_t{7} * 53; ++i) {
          ASSERT_NEAR(y[b * 7 * 53 + i], want[i / 53][i % 53], 2e-6) << b << " " << i;
        }
      }
      StateDict gradient(graph.layout());
      run.backward(direction, gradient);
      const std::vector<float> dx = copied(run.input_gradient("input"));
      // Central differences of the reference, at some places.
      const auto derivative = [&](float& place) {
        const float before = place;
        double sums[2] = {};
        double at[2] = {};
        for (int side = 0; side < 2; ++side) {
          place = before + (side == 0 ? 0x1p-10F : -0x1p-10F);
          at[side] = place;
          for (std::size_t b = 0; b < kBatch; ++b) {
            const auto want = reference(b);
            for (std::size_t i = 0; i < std::size_t{7} * 53; ++i) {
              sums[side] += direction[b * 7 * 53 + i] * want[i / 53][i % 53];
            }
          }
        }
        place = before;
        return (sums[0] - sums[1]) / (at[0] - at[1]);
      };
      Random random(6);
      for (const TensorSpec& tensor : graph.layout()->tensors()) {
        SCOPED_TRACE(tensor.name);
        for (int i = 0; i < 3; ++i) {
          const auto place = static_cast<std::size_t>(tensor.offset) +
                             random.below(static_cast<std::uint64_t>(tensor.size));
          const double want = derivative(state.values()[place]);
          EXPECT_NEAR(gradient.values()[place], want, 2e-5 * (1 + std::abs(want)));
        }
      }
      for (std::size_t place = 0; place < x.size(); place += 71) {
        const double want = derivative(x[place]);
        EXPECT_NEAR(dx[place], want, 2e-5 * (1 + std::abs(want))) << place;
      }
    }
  }
}

TEST_P(Recurrent, TheLastStepIsThatOfTheSequence) {
  const Graph all = made(node(9), {6, 4});
  const Graph last = made(node(9, {{"return_sequences", false}}), {6, 4});
  EXPECT_EQ(all.output_shape(), (Shape{6, 9}));
  EXPECT_EQ(last.output_shape(), Shape{9});
  const StateDict state = all.initial_state(1);
  const std::vector<float> x = values_of(5 * 6 * 4, 2);
  GraphRun all_run = run_of(all, 5);
  GraphRun last_run = run_of(last, 5);
  const std::vector<float> sequence = copied(all_run.run(state, x, 5, {.training = true}));
  const std::vector<float> y = copied(last_run.run(state, x, 5, {.training = true}));
  std::vector<float> direction(sequence.size(), 0.0F);
  const std::vector<float> last_direction = values_of(y.size(), 3);
  for (std::size_t b = 0; b < 5; ++b) {
    for (std::size_t u = 0; u < 9; ++u) {
      EXPECT_EQ(y[b * 9 + u], sequence[(b * 6 + 5) * 9 + u]);
      direction[(b * 6 + 5) * 9 + u] = last_direction[b * 9 + u];
    }
  }
  StateDict gradient(all.layout());
  StateDict last_gradient(last.layout());
  all_run.backward(direction, gradient);
  last_run.backward(last_direction, last_gradient);
  EXPECT_TRUE(gradient == last_gradient);
  EXPECT_TRUE(
      std::ranges::equal(all_run.input_gradient("input"), last_run.input_gradient("input")));
}

TEST_P(Recurrent, TheLayersAreThoseOfNodesInARow) {
  const Graph both = made(node(17, {{"layers", 2}}), {9, 5});
  Json first = node(17);
  first["id"] = "a";
  Json second = node(17);
  second["id"] = "b";
  const auto row = Graph::from_json(
      {{"input", {{"shape", {9, 5}}}}, {"nodes", {first, second}}, {"loss", {{"type", "mse"}}}});
  ASSERT_TRUE(row) << row.error().message;
  const StateDict state = both.initial_state(1);
  StateDict row_state(row->layout());
  const auto name_in_row = [](const std::string& name) {
    std::string other = (name.back() == '0' ? "a" : "b") + name.substr(1);
    other.back() = '0';
    return other;
  };
  for (const TensorSpec& tensor : both.layout()->tensors()) {
    std::ranges::copy(state.tensor(tensor), row_state.tensor(name_in_row(tensor.name)).begin());
  }
  const std::vector<float> x = values_of(4 * 9 * 5, 2);
  const std::vector<float> direction = values_of(4 * 9 * 17, 3);
  GraphRun both_run = run_of(both, 4);
  GraphRun row_run = run_of(*row, 4);
  const auto y = both_run.run(state, x, 4, {.training = true});
  EXPECT_TRUE(std::ranges::equal(row_run.run(row_state, x, 4, {.training = true}), y));
  StateDict gradient(both.layout());
  StateDict row_gradient(row->layout());
  both_run.backward(direction, gradient);
  row_run.backward(direction, row_gradient);
  for (const TensorSpec& tensor : both.layout()->tensors()) {
    EXPECT_TRUE(
        std::ranges::equal(gradient.tensor(tensor), row_gradient.tensor(name_in_row(tensor.name))))
        << tensor.name;
  }
  EXPECT_TRUE(
      std::ranges::equal(both_run.input_gradient("input"), row_run.input_gradient("input")));
}

// More than one chunk of steps, units that several workers share.
TEST_P(Recurrent, ManyWorkersGiveTheBitsOfOne) {
  for (const std::int64_t batch : {1, 37, 67}) {
    for (const std::int64_t units : {40, 150}) {
      const Graph graph = made(node(units, {{"layers", 2}}), {45, 6});
      const StateDict state = graph.initial_state(1);
      const std::vector<float> x = values_of(static_cast<std::size_t>(batch * 45 * 6), 2);
      const std::vector<float> direction =
          values_of(static_cast<std::size_t>(batch * 45 * units), 3);
      std::vector<float> y;
      std::vector<float> dx;
      StateDict gradient(graph.layout());
      for (const int count : {1, 2, 3, 8}) {
        SCOPED_TRACE("workers " + std::to_string(count) + " units " + std::to_string(units));
        Workers workers(count);
        GraphRun run = run_of(graph, batch, &workers);
        const std::vector<float> other = copied(run.run(state, x, batch, {.training = true}));
        StateDict other_gradient(graph.layout());
        run.backward(direction, other_gradient);
        const std::vector<float> other_dx = copied(run.input_gradient("input"));
        if (count == 1) {
          y = other;
          dx = other_dx;
          gradient = std::move(other_gradient);
          continue;
        }
        EXPECT_TRUE(other == y);
        EXPECT_TRUE(other_dx == dx);
        EXPECT_TRUE(other_gradient == gradient);
      }
    }
  }
}

TEST_P(Recurrent, ABatchGivesTheBitsOfItsExamplesOneAtATime) {
  constexpr std::size_t kBatch = 71;
  const Graph graph = made(node(33, {{"layers", 2}}), {30, 7});
  const StateDict state = graph.initial_state(1);
  const std::vector<float> x = values_of(kBatch * 30 * 7, 2);
  const std::vector<float> direction = values_of(kBatch * 30 * 33, 3);
  GraphRun run = run_of(graph, kBatch);
  StateDict gradient(graph.layout());
  const std::vector<float> y = copied(run.run(state, x, kBatch, {.training = true}));
  run.backward(direction, gradient);
  const std::vector<float> dx = copied(run.input_gradient("input"));
  for (std::size_t b = 0; b < kBatch; ++b) {
    const auto one = run.run(state, std::span(x).subspan(b * 210, 210), 1, {.training = true});
    EXPECT_TRUE(std::ranges::equal(one, std::span(y).subspan(b * 990, 990))) << b;
    run.backward(std::span(direction).subspan(b * 990, 990), gradient);
    EXPECT_TRUE(
        std::ranges::equal(run.input_gradient("input"), std::span(dx).subspan(b * 210, 210)))
        << b;
  }
}

TEST_P(Recurrent, ALongerSequenceBeginsWithTheBitsOfItsBeginning) {
  const Graph longer = made(node(21), {300, 3});
  const Graph shorter = made(node(21), {40, 3});
  const StateDict state = longer.initial_state(1);
  const std::vector<float> x = values_of(300 * 3, 2);
  GraphRun long_run = run_of(longer, 1);
  GraphRun short_run = run_of(shorter, 1);
  const auto y = long_run.run(state, x, 1, {});
  const auto begin = short_run.run(state, std::span(x).first(40 * 3), 1, {});
  EXPECT_TRUE(std::ranges::equal(begin, y.first(40 * 21)));
}

TEST_P(Recurrent, ParametersHaveTheNamesShapesAndStartsOfPyTorch) {
  const std::int64_t gates = GetParam() == "lstm" ? 4 : 3;
  const Graph graph = made(node(16, {{"layers", 2}}), {4, 10});
  std::map<std::string, Shape> shapes;
  for (const TensorSpec& tensor : graph.layout()->tensors()) shapes[tensor.name] = tensor.shape;
  const std::map<std::string, Shape> wanted{
      {"n.weight_ih_l0", {gates * 16, 10}}, {"n.weight_hh_l0", {gates * 16, 16}},
      {"n.bias_ih_l0", {gates * 16}},       {"n.bias_hh_l0", {gates * 16}},
      {"n.weight_ih_l1", {gates * 16, 16}}, {"n.weight_hh_l1", {gates * 16, 16}},
      {"n.bias_ih_l1", {gates * 16}},       {"n.bias_hh_l1", {gates * 16}}};
  EXPECT_EQ(shapes, wanted);
  const StateDict state = graph.initial_state(1);
  for (const TensorSpec& tensor : graph.layout()->tensors()) {
    const auto values = state.tensor(tensor);
    const auto [low, high] = std::ranges::minmax(values);
    EXPECT_GE(low, -0.25F) << tensor.name;
    EXPECT_LT(high, 0.25F) << tensor.name;
    EXPECT_LT(low, -0.2F) << tensor.name;
    EXPECT_GT(high, 0.2F) << tensor.name;
  }
  EXPECT_EQ(graph.nodes()[0].op->multiply_adds(),
            4 * gates * 16 * (10 + 16) + 4 * gates * 16 * (16 + 16));
}

TEST_P(Recurrent, CanonicalFormHasEveryDefaultAndReadsBack) {
  const Graph graph = made(node(3), {2, 4});
  const Json json = graph.to_json();
  EXPECT_EQ(json.at("nodes").at(0), (Json{{"id", "n"},
                                          {"op", GetParam()},
                                          {"inputs", {"input"}},
                                          {"units", 3},
                                          {"layers", 1},
                                          {"bias", true},
                                          {"return_sequences", true}}));
  const Graph other =
      made(node(3, {{"layers", 3}, {"bias", false}, {"return_sequences", false}}), {2, 4});
  for (const Graph* each : {&graph, &other}) {
    const Result<Graph> again = Graph::from_json(each->to_json());
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->to_json(), each->to_json());
    EXPECT_TRUE(*again->layout() == *each->layout());
  }
  EXPECT_EQ(other.layout()->tensors().size(), 6U);
}

TEST_P(Recurrent, RefusesWhatIsNoRecurrentNode) {
  const auto refused = [&](const Json& json, const Shape& input) {
    const Result<Graph> graph = graph_of(json, input);
    EXPECT_FALSE(graph);
    return graph ? std::string() : graph.error().message;
  };
  EXPECT_THAT(refused(node(0), {2, 3}), HasSubstr("units"));
  EXPECT_THAT(refused(node(-1), {2, 3}), HasSubstr("units"));
  EXPECT_THAT(refused(node((1 << 20) + 1), {2, 3}), HasSubstr("units"));
  EXPECT_THAT(refused(node(4, {{"units", "many"}}), {2, 3}), HasSubstr("units"));
  EXPECT_THAT(refused(node(4, {{"layers", 0}}), {2, 3}), HasSubstr("layers"));
  EXPECT_THAT(refused(node(4, {{"layers", 65}}), {2, 3}), HasSubstr("layers"));
  EXPECT_THAT(refused(node(4, {{"bias", 1}}), {2, 3}), HasSubstr("bias"));
  EXPECT_THAT(refused(node(4, {{"return_sequences", "no"}}), {2, 3}),
              HasSubstr("return_sequences"));
  EXPECT_THAT(refused(node(4, {{"num_layers", 2}}), {2, 3}), HasSubstr("num_layers"));
  for (const Shape& shape : {Shape{3}, Shape{2, 3, 4}}) {
    EXPECT_THAT(
        refused(node(4), shape),
        HasSubstr(GetParam() + " wants an input of [steps, features], got " + to_string(shape)));
  }
}

// Sizes whose products leave 64 bits, in every place they come in by.
TEST_P(Recurrent, RefusesHugeSizesWithoutTakingMemory) {
  const std::int64_t huge = std::int64_t{1} << 31;
  const std::vector<std::pair<Json, Shape>> cases{
      {node(1 << 20, {{"layers", 64}}), {huge, 1}},
      {node(1 << 20, {{"return_sequences", false}}), {huge, 1}},
      {node(1 << 20, {{"return_sequences", false}, {"layers", 64}}), {1, huge}},
      {node(1 << 20), {1, 1}},
      {node(1, {{"return_sequences", false}}), {huge * 1024, 1}},
      {node(1024, {{"return_sequences", false}}), {huge * 64, 1024}},
  };
  for (const auto& [json, shape] : cases) {
    SCOPED_TRACE(json.dump() + to_string(shape));
    const Result<Graph> graph = graph_of(json, shape);
    if (!graph) continue;
    GraphRunOptions options;
    options.max_batch = std::int64_t{1} << 40;
    EXPECT_FALSE(GraphRun::create(*graph, options));
  }
  EXPECT_FALSE(graph_of(cases[0].first, cases[0].second));
  EXPECT_FALSE(graph_of(cases[3].first, cases[3].second));
}

TEST_P(Recurrent, NanAndInfinityDoNotGetLost) {
  const Graph graph = made(node(5), {4, 2});
  const StateDict state = graph.initial_state(1);
  GraphRun run = run_of(graph, 2);
  std::vector<float> x = values_of(2 * 4 * 2, 2);
  x[2 * 2] = std::numeric_limits<float>::quiet_NaN();  // example 0, step 2
  const auto y = run.run(state, x, 2, {});
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(std::isnan(y[i]), i >= 2 * 5 && i < 4 * 5) << i;
  }
  x[2 * 2] = 1e30F;
  const auto saturated = run.run(state, x, 2, {});
  for (const float value : saturated) EXPECT_LE(std::abs(value), 1.0F);
}

}  // namespace
}  // namespace muster
