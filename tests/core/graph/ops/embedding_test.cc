#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/random.h"
#include "core/graph/graph_run.h"

namespace muster {
namespace {

Result<Graph> graph_of(std::int64_t vocabulary, std::int64_t units, const Shape& input) {
  return Graph::from_json(
      {{"input", {{"shape", input}}},
       {"nodes",
        {{{"id", "e"}, {"op", "embedding"}, {"vocabulary", vocabulary}, {"units", units}}}},
       {"loss", {{"type", "mse"}}}});
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

TEST(Embedding, LooksUpRowsOfAnyShapeOfNumbers) {
  const auto graph = graph_of(5, 3, {2, 2});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->output_shape(), (Shape{2, 2, 3}));
  const StateDict state = graph->initial_state(1);
  GraphRun run = run_of(*graph, 2);
  const std::vector<float> ids{4, 0, 1, 1, 3, 2, 0, 4};
  const auto y = run.run(state, ids, 2, {});
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i], state.values()[static_cast<std::size_t>(ids[i / 3]) * 3 + i % 3]);
  }
}

TEST(Embedding, ARowsGradientIsTheSumInOrderOfTheNumbers) {
  const auto graph = graph_of(3, 2, {4});
  ASSERT_TRUE(graph);
  const StateDict state = graph->initial_state(1);
  GraphRun run = run_of(*graph, 1);
  const std::vector<float> ids{1, 2, 1, 1};
  run.run(state, ids, 1, {.training = true});
  // (2^24 + 1) + 1 loses both ones, 1 + 1 + 2^24 none.
  const std::vector<float> dy{0x1p24F, 1, 5, 6, 1, 1, 1, 0x1p24F};
  StateDict gradient(graph->layout());
  std::ranges::fill(gradient.values(), 7.0F);
  run.backward(dy, gradient);
  EXPECT_THAT(gradient.values(), testing::ElementsAre(0, 0, 0x1p24F, 0x1p24F + 2, 5, 6));
  EXPECT_THAT(run.input_gradient("input"), testing::Each(0.0F));
  run.backward(dy, gradient, true);
  EXPECT_THAT(gradient.values(), testing::ElementsAre(0, 0, 0x1p25F, 0x1p25F + 4, 10, 12));
}

TEST(Embedding, ManyWorkersGiveTheBitsOfOne) {
  constexpr std::int64_t kBatch = 64;
  for (const std::int64_t vocabulary : {1, 7, 300}) {
    const auto graph = graph_of(vocabulary, 19, {200});
    ASSERT_TRUE(graph);
    const StateDict state = graph->initial_state(1);
    Random random(2);
    std::vector<float> ids(kBatch * 200);
    for (float& id : ids) {
      id = static_cast<float>(random.below(static_cast<std::uint64_t>(vocabulary)));
    }
    std::vector<float> dy(ids.size() * 19);
    for (float& value : dy) value = static_cast<float>(random.normal());
    GraphRun run = run_of(*graph, kBatch);
    const auto y = run.run(state, ids, kBatch, {.training = true});
    StateDict gradient(graph->layout());
    run.backward(dy, gradient);
    for (const int count : {2, 3, 8}) {
      Workers workers(count);
      GraphRun other = run_of(*graph, kBatch, &workers);
      EXPECT_TRUE(std::ranges::equal(other.run(state, ids, kBatch, {.training = true}), y));
      StateDict other_gradient(graph->layout());
      other.backward(dy, other_gradient);
      EXPECT_TRUE(gradient == other_gradient) << count;
    }
  }
}

TEST(Embedding, ANumberThatIsNoRowGivesNanAndNoGradient) {
  const auto graph = graph_of(3, 1, {8});
  ASSERT_TRUE(graph);
  const StateDict state = graph->initial_state(1);
  GraphRun run = run_of(*graph, 1);
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> ids{2, 3, -1, 0.5F, std::nanf(""), infinity, -infinity, 1e30F};
  const auto y = run.run(state, ids, 1, {.training = true});
  EXPECT_EQ(y[0], state.values()[2]);
  for (std::size_t i = 1; i < 8; ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
  EXPECT_EQ(run.first_non_finite(), "e");
  StateDict gradient(graph->layout());
  run.backward(std::vector<float>(8, 1.0F), gradient);
  EXPECT_THAT(gradient.values(), testing::ElementsAre(0, 0, 1));
}

TEST(Embedding, RefusesSizesThatRowNumbersCannotReach) {
  const auto refused = [](std::int64_t vocabulary, std::int64_t units) {
    const auto graph = graph_of(vocabulary, units, {2});
    EXPECT_FALSE(graph);
    return graph ? std::string() : graph.error().message;
  };
  EXPECT_THAT(refused(0, 1), testing::HasSubstr("vocabulary"));
  EXPECT_THAT(refused((1 << 24) + 1, 1), testing::HasSubstr("vocabulary"));
  EXPECT_THAT(refused(3, 0), testing::HasSubstr("units"));
  EXPECT_THAT(refused(1 << 24, 1 << 24), testing::HasSubstr("e"));
}

}  // namespace
}  // namespace muster
