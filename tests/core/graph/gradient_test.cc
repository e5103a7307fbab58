#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/graph/graph_run.h"
#include "tests/core/graph/gradient_check.h"

// Every op and loss against central differences: sum(output * direction) is differentiated by each
// input and parameter.
namespace muster {
namespace {

class Gradient : public testing::TestWithParam<std::tuple<GradientCase, int>> {};

TEST_P(Gradient, EqualsCentralDifferences) {
  const auto& [test, batch] = GetParam();
  check_gradient(test, batch);
}

const std::vector<GradientCase> kCases{
    {"dense", {7}, {{{"id", "n"}, {"op", "dense"}, {"units", 5}}}},
    {"dense_wide", {37}, {{{"id", "n"}, {"op", "dense"}, {"units", 9}}}},
    {"dense_of_one", {1}, {{{"id", "n"}, {"op", "dense"}, {"units", 1}, {"bias", false}}}},
    {"dense_on_last_dimension", {3, 9}, {{{"id", "n"}, {"op", "dense"}, {"units", 4}}}},
    {"relu", {13}, {{{"id", "n"}, {"op", "relu"}}}},
    {"tanh", {13}, {{{"id", "n"}, {"op", "tanh"}}}},
    {"sigmoid", {13}, {{{"id", "n"}, {"op", "sigmoid"}}}},
    {"leaky_relu", {13}, {{{"id", "n"}, {"op", "leaky_relu"}, {"negative_slope", 0.2}}}},
    {"gelu", {13}, {{{"id", "n"}, {"op", "gelu"}}}},
    {"gelu_tanh", {37}, {{{"id", "n"}, {"op", "gelu"}, {"approximate", "tanh"}}}},
    {"softmax", {13}, {{{"id", "n"}, {"op", "softmax"}}}},
    {"softmax_of_rows", {3, 2, 5}, {{{"id", "n"}, {"op", "softmax"}}}},
    {"softmax_of_one", {3, 1}, {{{"id", "n"}, {"op", "softmax"}}}},
    {"flatten", {3, 5}, {{{"id", "n"}, {"op", "flatten"}}}},
    {"reshape", {3, 4}, {{{"id", "n"}, {"op", "reshape"}, {"shape", {2, -1, 3}}}}},
    {"global_avg_pool", {3, 5, 7}, {{{"id", "n"}, {"op", "global_avg_pool"}}}},
    {"global_avg_pool_of_one", {3, 1}, {{{"id", "n"}, {"op", "global_avg_pool"}}}},
    {"multiply",
     {5},
     {{{"id", "a"}, {"op", "dense"}, {"units", 5}},
      {{"id", "b"}, {"op", "tanh"}, {"inputs", {"input"}}},
      {{"id", "n"}, {"op", "multiply"}, {"inputs", {"a", "b", "input", "b"}}}}},
    {"concat",
     {2, 3},
     {{{"id", "a"}, {"op", "dense"}, {"units", 4}},
      {{"id", "n"}, {"op", "concat"}, {"axis", 1}, {"inputs", {"a", "input", "a"}}}}},
    {"concat_in_front",
     {2, 3},
     {{{"id", "a"}, {"op", "reshape"}, {"shape", {1, 6}}},
      {{"id", "b"}, {"op", "reshape"}, {"shape", {2, 3}}, {"inputs", {"a"}}},
      {{"id", "n"}, {"op", "concat"}, {"inputs", {"input", "b"}}}}},
    {"standardize",
     {2, 3},
     {{{"id", "n"}, {"op", "standardize"}, {"mean", {0.5, -1}}, {"variance", {4, 0}}}}},
    {"dropout", {11}, {{{"id", "n"}, {"op", "dropout"}, {"p", 0.4}}}},
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

// Those of the larger kinds are in their own files.
TEST(OpKinds, EveryKindHasAGradientCheck) {
  std::set<std::string> checked{"avg_pool2d", "batch_norm", "conv2d",     "group_norm", "gru",
                                "layer_norm", "lstm",       "max_pool2d", "standardize"};
  for (const GradientCase& test : kCases) checked.insert(test.nodes.back().at("op"));
  for (const OpKind& kind : builtin_ops()) {
    EXPECT_TRUE(checked.contains(std::string(kind.name))) << kind.name;
  }
}

class LossGradient : public testing::TestWithParam<std::tuple<Json, int>> {};

TEST_P(LossGradient, EqualsCentralDifferences) {
  const auto& [json, batch] = GetParam();
  constexpr std::int64_t kWidth = 5;
  const auto loss = loss_from_json(json, "loss", {kWidth});
  ASSERT_TRUE(loss) << loss.error().message;
  Random random(5);
  auto x = gradient_values(static_cast<std::size_t>(batch * kWidth), random);
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
