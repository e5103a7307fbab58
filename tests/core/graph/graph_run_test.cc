#include "core/graph/graph_run.h"

#include <gmock/gmock.h>

#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <vector>

#include "core/graph/model.h"

namespace muster {
namespace {

Graph two_branches() {
  auto graph = Graph::from_json({{"input", {{"shape", {5}}}},
                                 {"nodes",
                                  {{{"id", "a"}, {"op", "dense"}, {"units", 6}},
                                   {{"id", "b"}, {"op", "tanh"}},
                                   {{"id", "c"}, {"op", "dense"}, {"units", 6}},
                                   {{"id", "sum"}, {"op", "add"}, {"inputs", {"b", "c"}}},
                                   {{"id", "out"}, {"op", "dense"}, {"units", 3}}}},
                                 {"loss", {{"type", "softmax_cross_entropy"}}}});
  EXPECT_TRUE(graph);
  return *std::move(graph);
}

GraphRun make_run(const Graph& graph, std::int64_t batch, std::vector<std::string> nodes = {}) {
  GraphRunOptions options;
  options.max_batch = batch;
  options.nodes = std::move(nodes);
  options.input_gradients = !options.nodes.empty();
  Result<GraphRun> run = GraphRun::create(graph, options);
  EXPECT_TRUE(run) << run.error().message;
  return *std::move(run);
}

std::vector<float> ramp(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 7) * 0.25F - 0.7F;
  return values;
}

// The part of a state that another layout has too.
StateDict part_of(const StateDict& state, const LayoutPtr& layout) {
  StateDict part(layout);
  for (const TensorSpec& tensor : layout->tensors()) {
    std::ranges::copy(state.tensor(tensor.name), part.tensor(tensor.name).begin());
  }
  return part;
}

TEST(GraphRun, PartsOfAGraphGiveTheBitsOfTheWhole) {
  const Graph graph = two_branches();
  const StateDict state = graph.initial_state(1);
  const std::vector<float> x = ramp(4 * 5);
  const std::vector<float> dy = ramp(4 * 3);
  GraphRun whole = make_run(graph, 4);
  const auto y = whole.run(state, x, 4, {.training = true});
  StateDict gradient(graph.layout());
  whole.backward(dy, gradient);

  GraphRun first = make_run(graph, 4, {"b", "a"});
  GraphRun second = make_run(graph, 4, {"c", "sum", "out"});
  EXPECT_THAT(first.inputs(), testing::ElementsAre("input"));
  EXPECT_THAT(first.outputs(), testing::ElementsAre("b"));
  EXPECT_THAT(second.inputs(), testing::ElementsAre("b"));
  const StateDict first_state = part_of(state, first.layout());
  const StateDict second_state = part_of(state, second.layout());
  const auto middle = first.run(first_state, x, 4, {.training = true});
  EXPECT_TRUE(std::ranges::equal(second.run(second_state, middle, 4, {.training = true}), y));
  StateDict first_gradient(first.layout());
  StateDict second_gradient(second.layout());
  second.backward(dy, second_gradient);
  first.backward(second.input_gradient("b"), first_gradient);
  EXPECT_TRUE(first_gradient == part_of(gradient, first.layout()));
  EXPECT_TRUE(second_gradient == part_of(gradient, second.layout()));
}

TEST(GraphRun, ABoundaryMayCutSeveralEdges) {
  const Graph graph = two_branches();
  const StateDict state = graph.initial_state(1);
  const std::vector<float> x = ramp(2 * 5);
  const std::vector<float> dy = ramp(2 * 3);
  GraphRun whole = make_run(graph, 2);
  whole.run(state, x, 2, {});
  StateDict gradient(graph.layout());
  whole.backward(dy, gradient);

  GraphRun first = make_run(graph, 2, {"a", "b", "c"});
  GraphRun second = make_run(graph, 2, {"sum", "out"});
  EXPECT_THAT(first.outputs(), testing::ElementsAre("b", "c"));
  EXPECT_THAT(second.inputs(), testing::ElementsAre("b", "c"));
  const std::array<std::span<const float>, 1> in{x};
  first.run(part_of(state, first.layout()), in, 2, {});
  const std::array middle{first.activation("b"), first.activation("c")};
  const StateDict second_state = part_of(state, second.layout());
  second.run(second_state, middle, 2, {});
  EXPECT_TRUE(std::ranges::equal(second.activation("out"), whole.activation("out")));
}

TEST(GraphRun, BackwardOverACutThatIsUsedInsideToo) {
  const Graph graph = two_branches();
  const StateDict state = graph.initial_state(1);
  const std::vector<float> x = ramp(2 * 5);
  const std::vector<float> dy = ramp(2 * 3);
  GraphRun whole = make_run(graph, 2);
  whole.run(state, x, 2, {});
  StateDict gradient(graph.layout());
  whole.backward(dy, gradient);

  // "b" leaves the first part and is an input of "c" within it.
  GraphRun first = make_run(graph, 2, {"a", "b", "c"});
  GraphRun second = make_run(graph, 2, {"sum", "out"});
  const StateDict first_state = part_of(state, first.layout());
  const StateDict second_state = part_of(state, second.layout());
  const std::array<std::span<const float>, 1> in{x};
  first.run(first_state, in, 2, {});
  const std::array middle{first.activation("b"), first.activation("c")};
  second.run(second_state, middle, 2, {});
  StateDict first_gradient(first.layout());
  StateDict second_gradient(second.layout());
  second.backward(dy, second_gradient);
  const std::array dmiddle{second.input_gradient("b"), second.input_gradient("c")};
  first.backward(dmiddle, first_gradient);
  EXPECT_TRUE(first_gradient == part_of(gradient, first.layout()));
}

TEST(GraphRun, GradientsAddUpWhenAsked) {
  const Graph graph = two_branches();
  const StateDict state = graph.initial_state(1);
  const std::vector<float> x = ramp(3 * 5);
  GraphRun run = make_run(graph, 3);
  StateDict once(graph.layout());
  run.run(state, x, 3, {});
  run.backward(ramp(9), once);
  StateDict twice = once.clone();
  run.backward(ramp(9), twice, true);
  for (std::size_t i = 0; i < once.values().size(); ++i) {
    EXPECT_FLOAT_EQ(twice.values()[i], 2 * once.values()[i]);
  }
}

TEST(GraphRun, SameInputsGiveTheSameBitsWhereverTheyLie) {
  const Graph graph = *graph_from_model(*resolve_model({{"preset", "2nn"}}));
  const StateDict state = graph.initial_state(1);
  const std::vector<float> x = ramp(7 * 784);
  GraphRun run = make_run(graph, 7);
  const auto y = run.run(state, x, 7, {.training = true});
  const std::vector<float> first(y.begin(), y.end());
  StateDict gradient(graph.layout());
  run.backward(first, gradient);
  for (std::size_t shift = 1; shift < 9; ++shift) {
    std::vector<float> moved(x.size() + shift);
    std::copy(x.begin(), x.end(), moved.begin() + static_cast<std::ptrdiff_t>(shift));
    GraphRun other = make_run(graph, 7);
    const auto again = other.run(state, std::span(moved).subspan(shift), 7, {.training = true});
    EXPECT_TRUE(std::ranges::equal(again, first));
    StateDict other_gradient(graph.layout());
    other.backward(first, other_gradient);
    EXPECT_TRUE(gradient == other_gradient);
  }
}

TEST(GraphRun, AnExamplesOutputDoesNotDependOnItsNeighboursOrTheLastBatch) {
  const Graph graph = two_branches();
  const StateDict state = graph.initial_state(1);
  std::vector<float> x = ramp(8 * 5);
  GraphRun run = make_run(graph, 8);
  const auto all = run.run(state, x, 8, {});
  const std::vector<float> rows(all.begin(), all.end());
  const auto one = run.run(state, std::span(x).subspan(5 * 5, 5), 1, {});
  EXPECT_TRUE(std::ranges::equal(one, std::span(rows).subspan(5 * 3, 3)));
}

TEST(GraphRun, DropoutFollowsTheSeedAndIsOffInEvaluation) {
  const auto graph = Graph::from_json({{"input", {{"shape", {1000}}}},
                                       {"nodes", {{{"id", "d"}, {"op", "dropout"}, {"p", 0.25}}}},
                                       {"loss", {{"type", "mse"}}}});
  ASSERT_TRUE(graph);
  const StateDict state(graph->layout());
  const std::vector<float> x(1000, 3.0F);
  GraphRun run = make_run(*graph, 1);
  const auto copy = [&](GraphRun::Mode mode) {
    const auto y = run.run(state, x, 1, mode);
    return std::vector<float>(y.begin(), y.end());
  };
  const auto first = copy({.training = true, .seed = 1});
  EXPECT_EQ(first, copy({.training = true, .seed = 1}));
  EXPECT_NE(first, copy({.training = true, .seed = 2}));
  EXPECT_EQ(copy({.training = false, .seed = 1}), x);
  const auto kept = std::ranges::count(first, 4.0F);
  EXPECT_EQ(kept + std::ranges::count(first, 0.0F), 1000);
  EXPECT_NEAR(static_cast<double>(kept), 750, 60);
}

TEST(GraphRun, NamesTheFirstNodeThatIsNotFinite) {
  const Graph graph = two_branches();
  StateDict state = graph.initial_state(1);
  GraphRun run = make_run(graph, 1);
  run.run(state, ramp(5), 1, {});
  EXPECT_EQ(run.first_non_finite(), "");
  state.tensor("c.bias")[2] = std::numeric_limits<float>::infinity();
  run.run(state, ramp(5), 1, {});
  EXPECT_EQ(run.first_non_finite(), "c");
}

TEST(GraphRun, ReluLetsANanThrough) {
  const auto graph = Graph::from_json({{"input", {{"shape", {2}}}},
                                       {"nodes", {{{"id", "r"}, {"op", "relu"}}}},
                                       {"loss", {{"type", "mse"}}}});
  GraphRun run = make_run(*graph, 1);
  const std::vector<float> x{std::numeric_limits<float>::quiet_NaN(), 1};
  EXPECT_TRUE(std::isnan(run.run(StateDict(graph->layout()), x, 1, {})[0]));
}

TEST(GraphRun, EmbeddingOfARowThatIsNotThereIsNan) {
  const auto graph = Graph::from_json(
      {{"input", {{"shape", {5}}}},
       {"nodes", {{{"id", "e"}, {"op", "embedding"}, {"vocabulary", 3}, {"units", 1}}}},
       {"loss", {{"type", "mse"}}}});
  ASSERT_TRUE(graph);
  GraphRun run = make_run(*graph, 1);
  const std::vector<float> x{2, 3, -1, 0.5F, std::numeric_limits<float>::quiet_NaN()};
  const StateDict state = graph->initial_state(1);
  const auto y = run.run(state, x, 1, {});
  EXPECT_EQ(y[0], state.values()[2]);
  for (std::size_t i = 1; i < 5; ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
}

TEST(GraphRun, WorkspaceOverTheLimitOrTheAddressSpaceIsRefused) {
  const Graph graph = two_branches();
  for (const std::int64_t batch : {std::int64_t{1} << 30, std::int64_t{1} << 62}) {
    GraphRunOptions options;
    options.max_batch = batch;
    const Result<GraphRun> run = GraphRun::create(graph, options);
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code, ErrorCode::kResourceExhausted);
  }
}

TEST(GraphRun, UnknownNodesAndEmptyBatchesAreRefused) {
  const Graph graph = two_branches();
  GraphRunOptions options;
  options.nodes = {"a", "ghost"};
  EXPECT_THAT(GraphRun::create(graph, options).error().message, testing::HasSubstr("ghost"));
  options.nodes = {};
  options.max_batch = 0;
  EXPECT_FALSE(GraphRun::create(graph, options));
}

// An op as a later one might be: it carries a running mean along, which no gradient moves.
class RunningMean final : public Op {
 public:
  RunningMean()
      : Op({.output = {1},
            .parameters = {{.name = "mean", .shape = {1}, .init = {}, .trained = false},
                           {.name = "scale", .shape = {1}, .init = {.value = 2.0}}},
            .scratch_per_example = 1}) {}
  void forward(const Forward& io) const override {
    float sum = 0;
    for (std::size_t i = 0; i < io.output.size(); ++i) {
      io.scratch[i] = io.inputs[0][i];
      sum += io.scratch[i];
      io.output[i] = (io.inputs[0][i] - io.parameters[0][0]) * io.parameters[1][0];
    }
    EXPECT_TRUE(io.next_values[1].empty());
    io.next_values[0][0] =
        0.5F * io.parameters[0][0] + 0.5F * sum / static_cast<float>(io.output.size());
  }
  void backward(const Backward& io) const override {
    EXPECT_TRUE(io.dparameters[0].empty());
    io.dparameters[1][0] = io.doutput[0];
  }
};

TEST(GraphRun, ParametersThatNoGradientMovesAreCarriedAlong) {
  const std::array kinds{OpKind{"running_mean", 1, 1, [](JsonObject&, std::span<const Shape>) {
                                  return Result<std::unique_ptr<Op>>(
                                      std::make_unique<RunningMean>());
                                }}};
  const auto graph = Graph::from_json({{"input", {{"shape", {1}}}},
                                       {"nodes", {{{"id", "m"}, {"op", "running_mean"}}}},
                                       {"loss", {{"type", "mse"}}}},
                                      "graph", kinds);
  ASSERT_TRUE(graph) << graph.error().message;
  ASSERT_EQ(graph->trained_ranges().size(), 1U);
  EXPECT_EQ(graph->trained_ranges()[0].offset, graph->layout()->find("m.scale")->offset);
  EXPECT_EQ(graph->trained_ranges()[0].size, 1);
  StateDict state = graph->initial_state(1);
  GraphRun run = make_run(*graph, 2);
  run.run(state, std::vector<float>{3, 5}, 2, {.training = true});
  EXPECT_EQ(state.tensor("m.mean")[0], 0);
  StateDict gradient(graph->layout());
  gradient.tensor("m.mean")[0] = 9;
  run.backward(std::vector<float>{1, 1}, gradient);
  EXPECT_EQ(gradient.tensor("m.mean")[0], 9);
  run.update_untrained(state);
  EXPECT_EQ(state.tensor("m.mean")[0], 2);
  EXPECT_EQ(state.tensor("m.scale")[0], 2);
}

}  // namespace
}  // namespace muster
