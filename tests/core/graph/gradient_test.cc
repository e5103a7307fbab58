#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/graph/graph_run.h"

// Every op and loss against central differences: sum(output * direction) is differentiated by each
// input and parameter.
namespace muster {
namespace {

struct Case {
  std::string name;
  Shape input;
  Json nodes;
  bool whole_numbers = false;  // inputs are row numbers 0..4, with no gradient
};

void PrintTo(const Case& each, std::ostream* out) {
  *out << each.name;
}

std::vector<float> random_values(std::size_t count, Random& random) {
  std::vector<float> values(count);
  for (float& value : values) {
    // Away from 0, where relu has its corner.
    const double x = random.uniform() * 0.9 + 0.1;
    value = static_cast<float>(random.below(2) == 0 ? x : -x);
  }
  return values;
}

class Gradient : public testing::TestWithParam<std::tuple<Case, int>> {};

TEST_P(Gradient, EqualsCentralDifferences) {
  const auto& [test, batch] = GetParam();
  const Result<Graph> graph = Graph::from_json(
      {{"input", {{"shape", test.input}}}, {"nodes", test.nodes}, {"loss", {{"type", "mse"}}}});
  ASSERT_TRUE(graph) << graph.error().message;
  GraphRunOptions options;
  options.max_batch = batch;
  options.input_gradients = true;
  Result<GraphRun> run = GraphRun::create(*graph, options);
  ASSERT_TRUE(run) << run.error().message;
  Random random(7);
  StateDict state(graph->layout());
  const auto start = random_values(state.values().size(), random);
  std::copy(start.begin(), start.end(), state.values().begin());
  auto x = random_values(static_cast<std::size_t>(batch * graph->input_size()), random);
  if (test.whole_numbers) {
    for (float& value : x) value = static_cast<float>(random.below(5));
  }
  const std::size_t outputs =
      static_cast<std::size_t>(batch) * static_cast<std::size_t>(graph->node(graph->output()).size);
  const auto direction = random_values(outputs, random);
  // One seed, so that dropout's mask is the same in every call.
  const GraphRun::Mode mode{.training = true, .seed = 3};
  const auto value = [&] {
    const auto y = run->run(state, x, batch, mode);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * direction[i];
    return sum;
  };
  value();
  StateDict gradient(graph->layout());
  run->backward(direction, gradient);
  const auto dx = run->input_gradient("input");
  const std::vector<float> input_gradient(dx.begin(), dx.end());

  const auto check = [&](float& place, float got, const std::string& what) {
    constexpr float kStep = 1.0F / 256;
    const float before = place;
    place = before + kStep;
    const double up = value();
    place = before - kStep;
    const double down = value();
    place = before;
    const double want = (up - down) / (2 * kStep);
    EXPECT_NEAR(got, want, 4e-3 + 4e-3 * std::abs(want)) << what;
  };
  for (std::size_t i = 0; i < state.values().size(); ++i) {
    check(state.values()[i], gradient.values()[i], "parameter " + std::to_string(i));
  }
  for (std::size_t i = 0; i < x.size() && !test.whole_numbers; ++i) {
    check(x[i], input_gradient[i], "input " + std::to_string(i));
  }
}

const std::vector<Case> kCases{
    {"dense", {7}, {{{"id", "n"}, {"op", "dense"}, {"units", 5}}}},
    {"dense_wide", {37}, {{{"id", "n"}, {"op", "dense"}, {"units", 9}}}},
    {"dense_of_one", {1}, {{{"id", "n"}, {"op", "dense"}, {"units", 1}, {"bias", false}}}},
    {"dense_on_last_dimension", {3, 9}, {{{"id", "n"}, {"op", "dense"}, {"units", 4}}}},
    {"relu", {13}, {{{"id", "n"}, {"op", "relu"}}}},
    {"tanh", {13}, {{{"id", "n"}, {"op", "tanh"}}}},
    {"sigmoid", {13}, {{{"id", "n"}, {"op", "sigmoid"}}}},
    {"flatten", {3, 5}, {{{"id", "n"}, {"op", "flatten"}}}},
    {"dropout", {11}, {{{"id", "n"}, {"op", "dropout"}, {"p", 0.4}}}},
    {"layer_norm", {3, 7}, {{{"id", "n"}, {"op", "layer_norm"}}}},
    {"layer_norm_both",
     {3, 3},
     {{{"id", "n"}, {"op", "layer_norm"}, {"normalized_shape", {3, 3}}}}},
    {"layer_norm_plain", {5}, {{{"id", "n"}, {"op", "layer_norm"}, {"affine", false}}}},
    {"embedding", {3}, {{{"id", "n"}, {"op", "embedding"}, {"vocabulary", 5}, {"units", 3}}}, true},
    {"add_of_shared_inputs",
     {6},
     {{{"id", "a"}, {"op", "dense"}, {"units", 6}},
      {{"id", "b"}, {"op", "tanh"}},
      {{"id", "c"}, {"op", "sigmoid"}, {"inputs", {"a"}}},
      {{"id", "n"}, {"op", "add"}, {"inputs", {"a", "b", "c", "a", "input"}}}}},
    {"mlp",
     {9},
     {{{"id", "a"}, {"op", "dense"}, {"units", 8}},
      {{"id", "b"}, {"op", "tanh"}},
      {{"id", "n"}, {"op", "dense"}, {"units", 3}}}},
};

INSTANTIATE_TEST_SUITE_P(Ops, Gradient,
                         testing::Combine(testing::ValuesIn(kCases), testing::Values(1, 2, 3, 7)),
                         [](const auto& entry) {
                           return std::get<0>(entry.param).name + "_batch_" +
                                  std::to_string(std::get<1>(entry.param));
                         });

TEST(OpKinds, EveryKindHasAGradientCheck) {
  for (const OpKind& kind : builtin_ops()) {
    const bool checked = std::any_of(kCases.begin(), kCases.end(), [&](const Case& test) {
      return test.nodes.back().at("op") == std::string(kind.name);
    });
    EXPECT_TRUE(checked) << kind.name;
  }
}

class LossGradient : public testing::TestWithParam<std::tuple<Json, int>> {};

TEST_P(LossGradient, EqualsCentralDifferences) {
  const auto& [json, batch] = GetParam();
  constexpr std::int64_t kWidth = 5;
  const auto loss = loss_from_json(json, "loss", {kWidth});
  ASSERT_TRUE(loss) << loss.error().message;
  Random random(5);
  auto x = random_values(static_cast<std::size_t>(batch * kWidth), random);
  std::vector<std::int32_t> labels;
  std::vector<float> values;
  for (std::int64_t i = 0; i < batch * (*loss)->targets_per_example(); ++i) {
    if ((*loss)->wants_labels()) {
      labels.push_back(static_cast<std::int32_t>(random.below(kWidth)));
    } else {
      values.push_back(static_cast<float>(random.uniform()));
    }
  }
  std::vector<float> gradient(x.size());
  (*loss)->compute(x, {labels, values}, gradient);
  for (std::size_t i = 0; i < x.size(); ++i) {
    constexpr float kStep = 1.0F / 256;
    const float before = x[i];
    x[i] = before + kStep;
    const double up = (*loss)->compute(x, {labels, values}, {});
    x[i] = before - kStep;
    const double down = (*loss)->compute(x, {labels, values}, {});
    x[i] = before;
    EXPECT_NEAR(gradient[i], (up - down) / (2 * kStep), 1e-3) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Losses, LossGradient,
    testing::Combine(
        testing::Values(Json{{"type", "softmax_cross_entropy"}},
                        Json{{"type", "softmax_cross_entropy"}, {"reduction", "sum"}},
                        Json{{"type", "softmax_cross_entropy"}, {"label_smoothing", 0.2}},
                        Json{{"type", "mse"}}, Json{{"type", "mse"}, {"reduction", "sum"}},
                        Json{{"type", "bce_with_logits"}},
                        Json{{"type", "bce_with_logits"}, {"reduction", "sum"}}),
        testing::Values(1, 3)));

}  // namespace
}  // namespace muster
