#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/graph/graph_run.h"

// lstm and gru on batches that are worked off in blocks, the last of them shorter than the others.
namespace muster {
namespace {

constexpr std::int64_t kIn = 3;
constexpr std::int64_t kUnits = 5;

std::vector<float> values_of(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

Graph graph_of(const std::string& op, std::int64_t steps, std::int64_t layers) {
  Result<Graph> graph = Graph::from_json(
      {{"input", {{"shape", {steps, kIn}}}},
       {"nodes", {{{"id", "n"}, {"op", op}, {"units", kUnits}, {"layers", layers}}}},
       {"loss", {{"type", "mse"}}}});
  EXPECT_TRUE(graph) << graph.error().message;
  return *std::move(graph);
}

struct Values {
  std::vector<float> y, dx, gradient;
};

// The first `batch` examples, so many at a time; gradients by parameters are summed.
Values compute(const Graph& graph, std::int64_t batch, std::int64_t at_a_time, int worker_count) {
  const std::int64_t in = graph.input_size();
  const std::int64_t out = in / kIn * kUnits;
  const StateDict state = graph.initial_state(1);
  const std::vector<float> x = values_of(batch * in, 2);
  const std::vector<float> dy = values_of(batch * out, 3);
  Workers workers(worker_count);
  GraphRunOptions options;
  options.max_batch = at_a_time;
  options.input_gradients = true;
  options.workers = &workers;
  Result<GraphRun> run = GraphRun::create(graph, options);
  EXPECT_TRUE(run) << run.error().message;
  Values values;
  StateDict gradient(graph.layout());
  const auto part = [&](const std::vector<float>& of, std::int64_t first, std::int64_t size) {
    return std::span(of).subspan(static_cast<std::size_t>(first * size),
                                 static_cast<std::size_t>(at_a_time * size));
  };
  for (std::int64_t first = 0; first < batch; first += at_a_time) {
    const auto y = run->run(state, part(x, first, in), at_a_time, {.training = true});
    values.y.insert(values.y.end(), y.begin(), y.end());
    run->backward(part(dy, first, out), gradient, first > 0);
    const auto dx = run->input_gradient("input");
    values.dx.insert(values.dx.end(), dx.begin(), dx.end());
  }
  values.gradient.assign(gradient.values().begin(), gradient.values().end());
  return values;
}

class RecurrentBlocks
    : public testing::TestWithParam<std::tuple<std::string, std::int64_t, std::int64_t>> {
 protected:
  Graph graph(std::int64_t steps) const {
    return graph_of(std::get<0>(GetParam()), steps, std::get<1>(GetParam()));
  }
  std::int64_t batch() const { return std::get<2>(GetParam()); }
};

TEST_P(RecurrentBlocks, GiveWhatTheirExamplesGiveOneAtATime) {
  for (const std::int64_t steps : {7, 12, 33}) {
    SCOPED_TRACE("steps " + std::to_string(steps));
    const Graph made = graph(steps);
    const Values whole = compute(made, batch(), batch(), 1);
    const Values single = compute(made, batch(), 1, 1);
    EXPECT_TRUE(whole.y == single.y);
    EXPECT_TRUE(whole.dx == single.dx);
    ASSERT_EQ(whole.gradient.size(), single.gradient.size());
    for (std::size_t i = 0; i < single.gradient.size(); ++i) {
      ASSERT_NEAR(whole.gradient[i], single.gradient[i], 1e-4 + 1e-4 * std::abs(single.gradient[i]))
          << i;
    }
  }
}

TEST_P(RecurrentBlocks, ManyWorkersGiveTheBitsOfOne) {
  for (const std::int64_t steps : {7, 12, 33}) {
    const Graph made = graph(steps);
    const Values one = compute(made, batch(), batch(), 1);
    for (const int workers : {2, 3}) {
      SCOPED_TRACE("steps " + std::to_string(steps) + " workers " + std::to_string(workers));
      const Values many = compute(made, batch(), batch(), workers);
      EXPECT_TRUE(many.y == one.y);
      EXPECT_TRUE(many.dx == one.dx);
      EXPECT_TRUE(many.gradient == one.gradient);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Batches, RecurrentBlocks,
                         testing::Combine(testing::Values("lstm", "gru"), testing::Values(1, 2),
                                          testing::Values(65, 85, 103, 130)),
                         [](const auto& entry) {
                           return std::get<0>(entry.param) + "_layers" +
                                  std::to_string(std::get<1>(entry.param)) + "_batch" +
                                  std::to_string(std::get<2>(entry.param));
                         });

TEST(RecurrentBatches, EveryBatchUpTo150GivesTheBitsOfItsExamples) {
  constexpr std::int64_t kMost = 150;
  for (const std::string op : {"lstm", "gru"}) {
    for (const std::int64_t steps : {12, 80}) {
      const Graph made = graph_of(op, steps, 1);
      const Values single = compute(made, kMost, 1, 1);
      for (std::int64_t batch = 1; batch <= kMost; ++batch) {
        const Values whole = compute(made, batch, batch, 1);
        const std::string name =
            op + " steps " + std::to_string(steps) + " batch " + std::to_string(batch);
        EXPECT_TRUE(std::equal(whole.y.begin(), whole.y.end(), single.y.begin())) << name;
        EXPECT_TRUE(std::equal(whole.dx.begin(), whole.dx.end(), single.dx.begin())) << name;
      }
    }
  }
}

}  // namespace
}  // namespace muster
