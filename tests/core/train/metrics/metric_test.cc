#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/base/random.h"
#include "core/train/metrics/metric_set.h"

// Metrics against examples worked by hand, and what holds for all of them.
namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::unique_ptr<Loss> loss_of(const char* type, const Shape& shape) {
  auto loss = loss_from_json({{"type", type}}, "loss", shape);
  if (!loss) throw std::runtime_error(loss.error().message);
  return *std::move(loss);
}

std::unique_ptr<Loss> classes(std::int64_t count) {
  return loss_of("softmax_cross_entropy", {count});
}

std::unique_ptr<Loss> yes_or_no(std::int64_t outputs = 1) {
  return loss_of("bce_with_logits", {outputs});
}

MetricSet set_of(const Json& names, const Loss& loss) {
  auto set = metrics_from_json(names, "metrics", loss);
  if (!set) throw std::runtime_error(set.error().message);
  return *std::move(set);
}

// The metrics of one batch with labels, or with values.
Metrics of_labels(const Json& names, const Loss& loss, const std::vector<float>& prediction,
                  const std::vector<std::int32_t>& labels) {
  MetricSet set = set_of(names, loss);
  set.add(prediction, {labels, {}});
  return set.values();
}

Metrics of_values(const Json& names, const Loss& loss, const std::vector<float>& prediction,
                  const std::vector<float>& values) {
  MetricSet set = set_of(names, loss);
  set.add(prediction, {{}, values});
  return set.values();
}

// Logits that predict the classes given.
std::vector<float> predicting(const std::vector<std::size_t>& predicted, std::size_t count) {
  std::vector<float> logits(predicted.size() * count, -1.0F);
  for (std::size_t i = 0; i < predicted.size(); ++i) logits[i * count + predicted[i]] = 2.0F;
  return logits;
}

std::string refusal(const Json& names, const Loss& loss) {
  const auto set = metrics_from_json(names, "job.metrics", loss);
  if (set) return "was not refused";
  EXPECT_EQ(set.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(set.error().reason, testing::AnyOf("bad_field", "metric_unfit"));
  return set.error().message;
}

TEST(Accuracy, IsTheShareOfLargestLogitsOrOfLogitsOnTheRightSide) {
  // Predicted 0, 1, 2, 1 of labels 0, 1, 2, 2: 3 of 4.
  EXPECT_EQ(of_labels({"accuracy"}, *classes(3), predicting({0, 1, 2, 1}, 3), {0, 1, 2, 2})
                .at("accuracy"),
            0.75);
  // A logit of exactly 0 is a no: yes no no yes no against yes no yes no no, 3 of 5.
  EXPECT_EQ(of_values({"accuracy"}, *yes_or_no(), {1, -1, 0, 2, 0}, {1, 0, 1, 0, 0}).at("accuracy"),
            0.6);
}

TEST(Accuracy, CountsEachPositionOfAnExample) {
  // One example with three positions, two of them right.
  const auto loss = loss_of("softmax_cross_entropy", {3, 2});
  EXPECT_EQ(of_labels({"accuracy"}, *loss, {1, 0, 0, 1, 0, 1}, {0, 1, 0}).at("accuracy"), 2.0 / 3);
}

TEST(TopK, CountsLabelsAmongTheKLargest) {
  // In rows of falling order 2 0 3 1 the labels 0, 3 and 1 stand second, third and last.
  const std::vector<float> x{2, 0, 3, 1, 2, 0, 3, 1, 2, 0, 3, 1};
  const auto values = of_labels({{{"type", "top_k"}, {"k", 1}},
                                 {{"type", "top_k"}, {"k", 2}},
                                 {{"type", "top_k"}, {"k", 3}},
                                 {{"type", "top_k"}, {"k", 4}}},
                                *classes(4), x, {0, 3, 1});
  EXPECT_EQ(values.at("top1_accuracy"), 0.0);
  EXPECT_EQ(values.at("top2_accuracy"), 1.0 / 3);
  EXPECT_EQ(values.at("top3_accuracy"), 2.0 / 3);
  EXPECT_EQ(values.at("top4_accuracy"), 1.0);
}

TEST(TopK, OfEqualLogitsTheLowerClassesComeFirst) {
  const std::vector<float> x(3 * 3, 0.5F);
  const Json two = {{{"type", "top_k"}, {"k", 2}}};
  EXPECT_EQ(of_labels(two, *classes(3), x, {0, 1, 2}).at("top2_accuracy"), 2.0 / 3);
}

TEST(PrecisionRecall, OfYesAndNoCountsTheYes) {
  // Predicted y y y n n n, actual y n y y n n: 2 right, 1 wrong, 1 missed.
  //   precision 2 / 3, recall 2 / 3; with one more missed: recall 2 / 4, F1 2*2 / (2*2 + 1 + 2).
  const Json names = {"precision", "recall", "f1"};
  const auto values =
      of_values(names, *yes_or_no(), {1, 1, 1, -1, -1, -1, 0}, {1, 0, 1, 1, 0, 0, 1});
  EXPECT_EQ(values.at("precision"), 2.0 / 3);
  EXPECT_EQ(values.at("recall"), 2.0 / 4);
  EXPECT_EQ(values.at("f1"), 4.0 / 7);
  // Two logits say the same as their difference.
  EXPECT_EQ(
      of_labels(names, *classes(2), predicting({1, 1, 1, 0, 0, 0, 0}, 2), {1, 0, 1, 1, 0, 0, 1}),
      values);
}

TEST(PrecisionRecall, OfManyClassesAveragesOverThem) {
  // The example of scikit-learn's user guide: labels 0 1 2 0 1 2, predicted 0 2 1 0 0 1.
  //   class 0: 2 right, 1 wrong, 0 missed: precision 2/3, recall 1, F1 4/5
  //   class 1: 0 right, 2 wrong, 2 missed; class 2: 0 right, 1 wrong, 2 missed: all 0
  const auto values = of_labels({"precision",
                                 "recall",
                                 "f1",
                                 {{"type", "precision"}, {"average", "micro"}},
                                 {{"type", "recall"}, {"average", "micro"}},
                                 {{"type", "f1"}, {"average", "micro"}}},
                                *classes(3), predicting({0, 2, 1, 0, 0, 1}, 3), {0, 1, 2, 0, 1, 2});
  EXPECT_DOUBLE_EQ(values.at("precision"), (2.0 / 3) / 3);
  EXPECT_DOUBLE_EQ(values.at("recall"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(values.at("f1"), 0.8 / 3);
  // All counts together: 2 right, 4 wrong, 4 missed.
  EXPECT_DOUBLE_EQ(values.at("micro_precision"), 2.0 / 6);
  EXPECT_DOUBLE_EQ(values.at("micro_recall"), 2.0 / 6);
  EXPECT_DOUBLE_EQ(values.at("micro_f1"), 4.0 / 12);
}

TEST(PrecisionRecall, MacroLeavesOutClassesThatOccurNowhere) {
  // Of ten classes 3 and 5 occur among labels, 7 among predictions only: F1 of 3 is 2 / (2 + 1),
  // of 5 it is 1, of 7 it is 0.
  EXPECT_DOUBLE_EQ(of_labels({"f1"}, *classes(10), predicting({3, 5, 7}, 10), {3, 5, 3}).at("f1"),
                   (2.0 / 3 + 1 + 0) / 3);
}

TEST(PrecisionRecall, OfTwoClassesMayBeAveragedOverBoth) {
  // Labels 0 0 1, predicted 0 1 1. Class 0: F1 2 / 3; class 1: F1 2 / 3. Precision 1 and 1/2.
  const Json names = {{{"type", "precision"}, {"average", "macro"}}, "precision"};
  const auto values = of_labels(names, *classes(2), predicting({0, 1, 1}, 2), {0, 0, 1});
  EXPECT_EQ(values.at("macro_precision"), 0.75);
  EXPECT_EQ(values.at("precision"), 0.5);
  EXPECT_EQ(of_values(names, *yes_or_no(), {-1, 1, 1}, {0, 0, 1}), values);
}

TEST(PrecisionRecall, OfSeveralOutputsAveragesOverThem) {
  // Two outputs of three examples: the first 1 right, 1 wrong, 0 missed, the second never yes.
  const auto values = of_values({"precision", {{"type", "recall"}, {"average", "micro"}}},
                                *yes_or_no(2), {1, -1, 1, -1, -1, -1}, {1, 0, 0, 0, 0, 1});
  EXPECT_EQ(values.at("precision"), (1.0 / 2 + 0) / 2);
  EXPECT_EQ(values.at("micro_recall"), 1.0 / 2);  // 1 right, 1 missed
}

TEST(PrecisionRecall, NothingOverNothingIsNought) {
  const Json names = {"precision", "recall", "f1"};
  const auto values = of_values(names, *yes_or_no(), {-1, -2}, {0, 0});
  EXPECT_EQ(values, (Metrics{{"precision", 0.0}, {"recall", 0.0}, {"f1", 0.0}}));
}

TEST(ErrorsOfNumbers, AreWhatTheirNamesSay) {
  // Differences 1, -2, 0, 3: squares 1 + 4 + 0 + 9 = 14, magnitudes 6, over 4.
  for (const char* type : {"mse", "mae", "huber"}) {
    const auto values = of_values({"rmse", "mae"}, *loss_of(type, {2}), {2, 0, 5, 4}, {1, 2, 5, 1});
    EXPECT_DOUBLE_EQ(values.at("rmse"), std::sqrt(14.0 / 4));
    EXPECT_DOUBLE_EQ(values.at("mae"), 6.0 / 4);
  }
}

TEST(MetricsFromJson, TheDefaultDependsOnTheLoss) {
  EXPECT_EQ(default_metrics(*classes(3)).to_json(), Json({{{"type", "accuracy"}}}));
  EXPECT_EQ(default_metrics(*yes_or_no()).to_json(), Json({{{"type", "accuracy"}}}));
  for (const char* type : {"mse", "mae", "huber"}) {
    EXPECT_EQ(default_metrics(*loss_of(type, {1})).to_json(), Json({{{"type", "rmse"}}}));
  }
}

TEST(MetricsFromJson, WritesWhatItReads) {
  const auto loss = classes(5);
  const MetricSet set = set_of({"accuracy", {{"type", "top_k"}, {"k", 3}}, "f1", "auc"}, *loss);
  const Json written = set.to_json();
  EXPECT_EQ(written, Json({{{"type", "accuracy"}},
                           {{"type", "top_k"}, {"k", 3}},
                           {{"type", "f1"}, {"average", "macro"}},
                           {{"type", "auc"}}}));
  EXPECT_EQ(set_of(written, *loss).to_json(), written);
  EXPECT_TRUE(set_of(Json::array(), *loss).empty());
}

TEST(MetricsFromJson, TakesTheLossOfAGraph) {
  const auto graph = Graph::from_json({{"input", {{"shape", {4}}}},
                                       {"nodes", {{{"id", "act"}, {"op", "relu"}}}},
                                       {"loss", {{"type", "softmax_cross_entropy"}}}});
  ASSERT_TRUE(graph) << graph.error().message;
  const auto set = metrics_from_json({{{"type", "top_k"}, {"k", 4}}}, "metrics", *graph);
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->metrics()[0]->name(), "top4_accuracy");
  const auto refused = metrics_from_json({{{"type", "top_k"}, {"k", 5}}}, "metrics", *graph);
  EXPECT_THAT(refused.error().message, HasSubstr("metrics[0].k"));
}

TEST(MetricsFromJson, AnUnknownNameListsTheKnownOnes) {
  EXPECT_THAT(refusal({"accuracy", "acuracy"}, *classes(3)),
              AllOf(HasSubstr("job.metrics[1]"), HasSubstr("acuracy"),
                    HasSubstr("accuracy, auc, f1, mae, precision, recall, rmse, top_k")));
}

TEST(MetricsFromJson, AMetricThatDoesNotFitSaysWhatItWants) {
  for (const char* name : {"accuracy", "precision", "recall", "f1", "auc"}) {
    EXPECT_THAT(refusal(Json::array({name}), *loss_of("mse", {1})),
                AllOf(HasSubstr(std::string("job.metrics[0]: the metric ") + name),
                      HasSubstr("predicts numbers")));
  }
  for (const char* name : {"rmse", "mae"}) {
    EXPECT_THAT(refusal(Json::array({name}), *classes(3)), HasSubstr("one of 3 classes"));
    EXPECT_THAT(refusal(Json::array({name}), *yes_or_no(2)), HasSubstr("yes or no from 2 logits"));
  }
  EXPECT_THAT(refusal({{{"type", "top_k"}, {"k", 1}}}, *yes_or_no()), HasSubstr("yes or no"));
  for (const auto& loss : {classes(3), yes_or_no(3)}) {
    EXPECT_THAT(refusal({{{"type", "f1"}, {"average", "binary"}}}, *loss),
                HasSubstr("one of 2 classes"));
  }
}

TEST(MetricsFromJson, RefusesWhatIsNoListOfMetrics) {
  const auto loss = classes(3);
  EXPECT_THAT(refusal("accuracy", *loss), HasSubstr("a list"));
  EXPECT_THAT(refusal(Json::object(), *loss), HasSubstr("a list"));
  EXPECT_THAT(refusal({"accuracy", 3}, *loss), HasSubstr("job.metrics[1]"));
  EXPECT_THAT(refusal(Json::array({Json::object()}), *loss), HasSubstr("type"));
  EXPECT_THAT(refusal({"top_k"}, *loss), HasSubstr("job.metrics[0].k"));
  EXPECT_THAT(refusal({{{"type", "top_k"}, {"k", 0}}}, *loss), HasSubstr("job.metrics[0].k"));
  EXPECT_THAT(refusal({{{"type", "top_k"}, {"k", 4}}}, *loss), HasSubstr("job.metrics[0].k"));
  EXPECT_THAT(refusal({{{"type", "auc"}, {"k", 1}}}, *loss), HasSubstr("k"));
  EXPECT_THAT(refusal({{{"type", "f1"}, {"average", "weighted"}}}, *loss),
              HasSubstr("known are binary, macro, micro"));
  EXPECT_THAT(refusal({"auc", "accuracy", "auc"}, *loss),
              AllOf(HasSubstr("job.metrics[2]"), HasSubstr("already")));
  EXPECT_THAT(refusal(Json(std::vector<std::string>(33, "auc")), *loss), HasSubstr("at most 32"));
}

// Every metric that fits each form of predictions.
struct Form {
  const char* loss;
  Shape shape;
  Json metrics;
};

void PrintTo(const Form& form, std::ostream* out) {
  *out << form.loss << to_string(form.shape);
}

class EveryMetric : public testing::TestWithParam<Form> {
 protected:
  // `count` examples, whose logits repeat so that there are ties.
  void make(std::int64_t count) {
    Random random(3);
    const std::int64_t width = *element_count(GetParam().shape);
    for (std::int64_t i = 0; i < count * width; ++i) {
      prediction.push_back(static_cast<float>(random.below(7)) / 2 - 1.5F);
    }
    for (std::int64_t i = 0; i < count * loss->targets_per_example(); ++i) {
      if (loss->wants_labels()) {
        labels.push_back(static_cast<std::int32_t>(
            random.below(static_cast<std::uint64_t>(loss->num_classes()))));
      } else {
        values.push_back(static_cast<float>(random.below(2)));
      }
    }
  }

  // Examples [from, to) of `count` into `to_set`.
  void add(MetricSet& to_set, std::size_t from, std::size_t to, std::size_t count) const {
    const auto part = [&](auto items) {
      const std::size_t each = items.size() / count;
      return items.subspan(from * each, (to - from) * each);
    };
    to_set.add(part(std::span<const float>(prediction)),
               {part(std::span<const std::int32_t>(labels)), part(std::span<const float>(values))});
  }

  std::unique_ptr<Loss> loss = loss_of(GetParam().loss, GetParam().shape);
  MetricSet set = set_of(GetParam().metrics, *loss);
  std::vector<float> prediction;
  std::vector<std::int32_t> labels;
  std::vector<float> values;
};

TEST_P(EveryMetric, WithoutExamplesHasNoValue) {
  EXPECT_TRUE(set.values().empty());
  set.add({}, {});
  EXPECT_TRUE(set.values().empty());
}

TEST_P(EveryMetric, DoesNotDependOnBatchesAndMergingEqualsTheWhole) {
  make(60);
  MetricSet batches = set.fresh();
  MetricSet left = set.fresh();
  MetricSet right = set.fresh();
  add(set, 0, 60, 60);
  for (std::size_t at = 0; at < 60; at += 7) {
    add(batches, at, std::min<std::size_t>(at + 7, 60), 60);
    add(at < 30 ? left : right, at, std::min<std::size_t>(at + 7, 60), 60);
  }
  const Metrics whole = set.values();
  EXPECT_EQ(whole.size(), set.metrics().size());
  EXPECT_EQ(batches.values(), whole);
  ASSERT_TRUE(right.merge(left));
  // Sums of halves and quarters are exact, so here this holds for rmse and mae too.
  EXPECT_EQ(right.values(), whole);
  for (const auto& [name, value] : whole) {
    EXPECT_GE(value, 0.0) << name;
    if (loss->task() != Loss::Task::kValues) {
      EXPECT_LE(value, 1.0) << name;
    }
  }
}

TEST_P(EveryMetric, APredictionThatIsNotFiniteMakesTheValueNan) {
  make(20);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    MetricSet marked = set.fresh();
    const float before = std::exchange(prediction[prediction.size() / 2], bad);
    for (std::size_t at = 0; at < 20; at += 5) add(marked, at, at + 5, 20);
    prediction[prediction.size() / 2] = before;
    EXPECT_EQ(marked.values().size(), set.metrics().size());
    for (const auto& [name, value] : marked.values()) EXPECT_TRUE(std::isnan(value)) << name;
    // Neither more examples nor merging hides it.
    MetricSet merged = set.fresh();
    add(merged, 0, 5, 20);
    ASSERT_TRUE(merged.merge(marked));
    for (const auto& [name, value] : merged.values()) EXPECT_TRUE(std::isnan(value)) << name;
  }
}

TEST_P(EveryMetric, AFreshOneHasGatheredNothingAndDoesTheSame) {
  make(10);
  add(set, 0, 10, 10);
  MetricSet again = set.fresh();
  EXPECT_TRUE(again.values().empty());
  EXPECT_EQ(again.to_json(), set.to_json());
  add(again, 0, 10, 10);
  EXPECT_EQ(again.values(), set.values());
}

TEST_P(EveryMetric, MergesOnlyWithTheSame) {
  make(10);
  add(set, 0, 10, 10);
  const Metrics before = set.values();
  const auto wide = loss_of(GetParam().loss, {17});
  const MetricSet foreign = default_metrics(*wide);
  const Status other = set.merge(foreign);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(set.metrics()[0]->merge(*foreign.metrics()[0]));
  EXPECT_FALSE(set.check_fits(*wide));
  EXPECT_TRUE(set.check_fits(*loss));
  EXPECT_EQ(set.values(), before);
}

const Json kTop2 = {{"type", "top_k"}, {"k", 2}};
const Json kMicroF1 = {{"type", "f1"}, {"average", "micro"}};
const Json kMacroF1 = {{"type", "f1"}, {"average", "macro"}};

INSTANTIATE_TEST_SUITE_P(
    Forms, EveryMetric,
    testing::Values(
        Form{"softmax_cross_entropy",
             {4},
             {"accuracy", kTop2, "precision", "recall", "f1", kMicroF1, "auc"}},
        Form{"softmax_cross_entropy",
             {3, 5},
             {"accuracy", kTop2, "precision", "recall", "f1", "auc"}},
        Form{"softmax_cross_entropy",
             {2},
             {"accuracy", kTop2, "precision", "recall", "f1", kMacroF1, "auc"}},
        Form{"bce_with_logits",
             {1},
             {"accuracy", "precision", "recall", "f1", kMacroF1, kMicroF1, "auc"}},
        Form{"bce_with_logits", {3}, {"accuracy", "precision", "recall", "f1", kMicroF1, "auc"}},
        Form{"mse", {1}, {"rmse", "mae"}}, Form{"mae", {2, 2}, {"rmse", "mae"}},
        Form{"huber", {3}, {"rmse", "mae"}}));

}  // namespace
}  // namespace muster
