#include "core/train/evaluate.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/base/random.h"
#include "core/graph/model.h"

namespace muster {
namespace {

using testing::HasSubstr;

// A graph that gives its input through a factor of 1, so that data are predictions.
Graph pass_through(std::int64_t width, const Json& loss) {
  auto graph = Graph::from_json(
      {{"input", {{"shape", {width}}}},
       {"nodes", {{{"id", "fc"}, {"op", "dense"}, {"units", width}, {"bias", false}}}},
       {"loss", loss}});
  if (!graph) throw std::runtime_error(graph.error().message);
  return *std::move(graph);
}

StateDict identity(const Graph& graph) {
  StateDict state(graph.layout());
  const auto width = static_cast<std::size_t>(graph.input_size());
  for (std::size_t i = 0; i < width; ++i) state.values()[i * width + i] = 1.0F;
  return state;
}

Dataset labelled(std::vector<float> features, std::vector<std::int32_t> labels) {
  DatasetRows rows;
  rows.shape = {static_cast<std::int64_t>(features.size() / labels.size())};
  rows.floats = std::move(features);
  rows.labels = std::move(labels);
  return *Dataset::create(std::move(rows));
}

Dataset valued(std::vector<float> features, std::vector<float> values) {
  DatasetRows rows;
  rows.shape = {static_cast<std::int64_t>(features.size() / values.size())};
  rows.floats = std::move(features);
  rows.values = std::move(values);
  return *Dataset::create(std::move(rows));
}

// 250 examples are three batches of evaluation, the last one short.
Dataset random_labelled(std::int64_t classes, std::int64_t count = 250) {
  Random random(4);
  std::vector<float> features;
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < count; ++i) {
    labels.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(classes))));
    for (std::int64_t c = 0; c < classes; ++c) {
      features.push_back(static_cast<float>(random.normal() + (c == labels.back() ? 1 : 0)));
    }
  }
  return labelled(std::move(features), std::move(labels));
}

TEST(Evaluate, GivesTheLossAndTheMetricsAskedFor) {
  const Graph graph = pass_through(3, {{"type", "softmax_cross_entropy"}});
  // Predicted 0, 1, 2, 0 of labels 0, 1, 1, 0; each loss of a right one is log(1 + 2 e^-2), that of
  // the wrong one 2 more.
  const Dataset data = labelled({2, 0, 0, 0, 2, 0, 0, 0, 2, 2, 0, 0}, {0, 1, 1, 0});
  const auto metrics =
      metrics_from_json({"accuracy", {{"type", "top_k"}, {"k", 2}}, "recall"}, "metrics", graph);
  ASSERT_TRUE(metrics) << metrics.error().message;
  const auto result = evaluate(graph, identity(graph), data, *metrics);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->examples, 4);
  EXPECT_EQ(result->metrics.size(), 4U);
  EXPECT_NEAR(result->metrics.at("loss"), std::log(1 + 2 * std::exp(-2.0)) + 0.5, 1e-6);
  EXPECT_EQ(result->metrics.at("accuracy"), 0.75);
  EXPECT_EQ(result->metrics.at("top2_accuracy"), 0.75);  // of 0 0 2 the class 0 comes second
  EXPECT_DOUBLE_EQ(result->metrics.at("recall"), (1 + 0.5 + 0) / 3);
  // The description has gathered nothing: the same again.
  EXPECT_TRUE(metrics->values().empty());
  EXPECT_EQ(evaluate(graph, identity(graph), data, *metrics)->metrics, result->metrics);
}

TEST(Evaluate, DefaultsToAccuracyOrRmse) {
  const Graph classifier = pass_through(2, {{"type", "softmax_cross_entropy"}});
  const auto of_classes = evaluate(classifier, identity(classifier), random_labelled(2));
  ASSERT_TRUE(of_classes) << of_classes.error().message;
  EXPECT_EQ(of_classes->metrics.size(), 2U);
  EXPECT_TRUE(of_classes->metrics.contains("accuracy"));

  const Graph regression = pass_through(1, {{"type", "huber"}});
  // Differences 2 and -1 of two: rmse sqrt(5 / 2); Huber's terms 2 - 1/2 and 1/2.
  const auto of_numbers = evaluate(regression, identity(regression), valued({3, 1}, {1, 2}));
  ASSERT_TRUE(of_numbers) << of_numbers.error().message;
  EXPECT_EQ(of_numbers->metrics.size(), 2U);
  EXPECT_DOUBLE_EQ(of_numbers->metrics.at("rmse"), std::sqrt(2.5));
  EXPECT_DOUBLE_EQ(of_numbers->metrics.at("loss"), 1.0);
}

TEST(Evaluate, TwoWorkersGiveTheBitsOfOne) {
  const Graph graph = *graph_from_model(*resolve_model({{"preset", "2nn"}}, "model"));
  Random random(6);
  DatasetRows rows;
  rows.shape = {28, 28};
  for (int i = 0; i < 250; ++i) {
    rows.labels.push_back(static_cast<std::int32_t>(random.below(10)));
    for (int k = 0; k < 28 * 28; ++k) rows.floats.push_back(static_cast<float>(random.normal()));
  }
  const Dataset data = *Dataset::create(std::move(rows));
  const StateDict state = graph.initial_state(1);
  Workers one(1);
  Workers two(2);
  const auto alone = evaluate(graph, state, data);
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ(alone->metrics.count("accuracy"), 1U);
  for (Workers* workers : {&one, &two}) {
    EXPECT_EQ(evaluate(graph, state, data, {}, workers)->metrics, alone->metrics);
    EXPECT_EQ(evaluate(graph, state, data, default_metrics(graph.loss()), {}, workers)->metrics,
              alone->metrics);
  }
}

TEST(Evaluate, WithNoMetricsGivesTheLossOnly) {
  const Graph graph = pass_through(2, {{"type", "softmax_cross_entropy"}});
  const auto result = evaluate(graph, identity(graph), random_labelled(2), MetricSet());
  ASSERT_TRUE(result);
  EXPECT_EQ(result->metrics.size(), 1U);
  EXPECT_TRUE(result->metrics.contains("loss"));
}

TEST(Evaluate, WithoutExamplesGivesNothing) {
  const Graph graph = pass_through(2, {{"type", "softmax_cross_entropy"}});
  const auto result = evaluate(graph, identity(graph), Dataset());
  ASSERT_TRUE(result);
  EXPECT_EQ(result->examples, 0);
  EXPECT_TRUE(result->metrics.empty());
}

TEST(Evaluate, TheMeanLossOfWeightedClassesIsThatOfOneBatch) {
  const Json loss{{"type", "softmax_cross_entropy"}, {"class_weights", {5.0, 1.0, 0.0}}};
  const Graph graph = pass_through(3, loss);
  const Dataset data = random_labelled(3);
  std::vector<std::int64_t> all(250);
  std::iota(all.begin(), all.end(), 0);
  std::vector<float> logits(750);
  std::vector<std::int32_t> labels(250);
  data.copy_features(all, logits);
  data.copy_labels(all, labels);
  const double want = graph.loss().compute(logits, {labels, {}}, {});
  const auto result = evaluate(graph, identity(graph), data);
  ASSERT_TRUE(result);
  EXPECT_NEAR(result->metrics.at("loss"), want, 1e-6);
}

TEST(Evaluate, PredictionsThatAreNotFiniteGiveNoNumbers) {
  const Graph graph = pass_through(2, {{"type", "softmax_cross_entropy"}});
  StateDict state = identity(graph);
  state.values()[3] = std::numeric_limits<float>::quiet_NaN();
  const auto metrics = metrics_from_json({"accuracy", "auc", "f1"}, "metrics", graph);
  const auto result = evaluate(graph, state, random_labelled(2), *metrics);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->metrics.size(), 4U);
  for (const auto& [name, value] : result->metrics) EXPECT_FALSE(std::isfinite(value)) << name;
}

TEST(Evaluate, RefusesMetricsOfAnotherModelAndTooManyScores) {
  const Graph graph = pass_through(3, {{"type", "softmax_cross_entropy"}});
  const Graph other = pass_through(4, {{"type", "softmax_cross_entropy"}});
  const auto metrics = metrics_from_json({"accuracy"}, "metrics", other);
  const auto refused = evaluate(graph, identity(graph), random_labelled(3), *metrics);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "metric_unfit");

  // 50 classes want 450 bytes an example, so that 2 GiB are not enough for 5 million.
  const Graph wide = pass_through(50, {{"type", "softmax_cross_entropy"}});
  const Dataset few = random_labelled(50, 1);
  const Dataset many = few.subset(std::vector<std::int64_t>(5'000'000, 0));
  const auto scores = metrics_from_json({"auc"}, "metrics", wide);
  const auto large = evaluate(wide, identity(wide), many, *scores);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(large.error().message, HasSubstr("auc"));
}

}  // namespace
}  // namespace muster
