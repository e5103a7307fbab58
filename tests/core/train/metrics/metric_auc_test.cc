#include <gmock/gmock.h>

#include <cmath>
#include <optional>

#include "core/base/random.h"
#include "core/train/metrics/metric_set.h"

// The area under the ROC curve: worked examples, and the count of all pairs as a reference.
namespace muster {
namespace {

std::optional<double> auc_of(const char* type, const Shape& shape, const std::vector<float>& scores,
                             const TargetView& target) {
  const auto loss = loss_from_json({{"type", type}}, "loss", shape);
  auto set = metrics_from_json({"auc"}, "metrics", **loss);
  if (!set) throw std::runtime_error(set.error().message);
  set->add(scores, target);
  const Metrics values = set->values();
  if (!values.contains("auc")) return std::nullopt;
  return values.at("auc");
}

std::optional<double> of_logits(const std::vector<float>& logits, const std::vector<float>& yes,
                                std::int64_t outputs = 1) {
  return auc_of("bce_with_logits", {outputs}, logits, {{}, yes});
}

// The share of pairs of a positive and a negative that are in order, ties counted half.
std::optional<double> pairs(const std::vector<double>& scores, const std::vector<bool>& positive) {
  double won = 0;
  double all = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (!positive[i] || positive[j]) continue;
      all += 1;
      won += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  }
  if (all == 0) return std::nullopt;
  return won / all;
}

TEST(Auc, IsTheShareOfPairsInOrder) {
  // Positives 0.35 and 0.8, negatives 0.1 and 0.4: three of the four pairs are in order.
  EXPECT_EQ(of_logits({0.1F, 0.4F, 0.35F, 0.8F}, {0, 0, 1, 1}), 0.75);
  EXPECT_EQ(of_logits({1, 2, 3, 4}, {0, 0, 1, 1}), 1.0);
  EXPECT_EQ(of_logits({1, 2, 3, 4}, {1, 1, 0, 0}), 0.0);
}

TEST(Auc, CountsTiesHalf) {
  // Pairs (2 over 1), (2 ties 2), (2 over 1), (2 ties 2): (1 + 1/2 + 1 + 1/2) / 4.
  EXPECT_EQ(of_logits({1, 2, 2, 2}, {0, 0, 1, 1}), 0.75);
  EXPECT_EQ(of_logits({5, 5, 5, 5, 5}, {0, 1, 1, 0, 0}), 0.5);
  // Both zeros are one score.
  EXPECT_EQ(of_logits({0.0F, -0.0F}, {1, 0}), 0.5);
}

TEST(Auc, HasNoValueWhenAllTargetsAreAlike) {
  EXPECT_EQ(of_logits({1, 2, 3}, {1, 1, 1}), std::nullopt);
  EXPECT_EQ(of_logits({1, 2, 3}, {0, 0, 0}), std::nullopt);
  EXPECT_EQ(auc_of("softmax_cross_entropy", {3}, {1, 2, 3, 3, 2, 1}, {std::vector{1, 1}, {}}),
            std::nullopt);
}

TEST(Auc, OfTwoLogitsRanksTheirDifference) {
  // Differences 1, 0, 5, -1 with labels 0 0 1 1: (5 over 1, 5 over 0, -1 under both): 2 / 4.
  const std::vector<std::int32_t> labels{0, 0, 1, 1};
  EXPECT_EQ(auc_of("softmax_cross_entropy", {2}, {100, 101, 7, 7, -3, 2, 1, 0}, {labels, {}}), 0.5);
}

TEST(Auc, OfSeveralOutputsIsTheMeanOfThoseThatHaveACurve) {
  // Outputs: 1 (all pairs in order), 0.5 (a tie), and one whose targets are all no.
  EXPECT_EQ(of_logits({1, 4, 9, 2, 4, 3}, {0, 1, 0, 1, 0, 0}, 3), 0.75);
}

TEST(Auc, OfManyClassesIsOneVersusRestByProbability) {
  // Probabilities of class 0: about 0.99, 0.50, 0.33, so the shift of the second row by 50 counts
  // for nothing.
  const std::vector<float> logits{5, 0, 0, 51, 50, 50.2F, 0, 0, 0};
  const std::vector<std::int32_t> labels{0, 1, 2};
  // Class 0 leads: 1. Class 1: row 1 has 0.21 of probability, row 0 0.007, row 2 0.33: 1/2.
  // Class 2: row 2 has 0.33, row 0 0.007, row 1 0.25: 1.
  EXPECT_DOUBLE_EQ(*auc_of("softmax_cross_entropy", {3}, logits, {labels, {}}), (1 + 0.5 + 1) / 3);
}

TEST(Auc, LeavesOutClassesThatDoNotOccur) {
  // Class 2 has no example: the mean is of classes 0 and 1.
  const std::vector<float> logits{3, 0, 0, 0, 3, 0, 3, 0, 1};
  const std::vector<std::int32_t> labels{0, 1, 1};
  // Class 0: row 0 over rows 1 and 2. Class 1: rows 1 and 2 against row 0, whose probabilities of
  // class 1 are 0.91, 0.04 and 0.045: one of two pairs.
  EXPECT_DOUBLE_EQ(*auc_of("softmax_cross_entropy", {3}, logits, {labels, {}}), (1 + 0.5) / 2);
}

TEST(Auc, TellsApartProbabilitiesThatFloatsRoundToOne) {
  // Both probabilities of class 0 are 1 in single precision; the positive's is the larger.
  const std::vector<float> logits{40, 0, 0, 30, 0, 0};
  const std::vector<std::int32_t> labels{0, 1};
  EXPECT_DOUBLE_EQ(*auc_of("softmax_cross_entropy", {3}, logits, {labels, {}}), 1.0);
}

TEST(Auc, EqualsTheCountOfAllPairsOnRandomScores) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const std::size_t count = 1 + random.below(60);
    const std::uint64_t distinct = 1 + random.below(30);  // few: many ties
    std::vector<float> scores;
    std::vector<float> yes;
    for (std::size_t i = 0; i < count; ++i) {
      scores.push_back(static_cast<float>(random.below(distinct)) - 10.0F);
      yes.push_back(static_cast<float>(random.below(2)));
    }
    std::vector<bool> positive;
    for (const float each : yes) positive.push_back(each > 0);
    const auto want = pairs({scores.begin(), scores.end()}, positive);
    const auto got = of_logits(scores, yes);
    ASSERT_EQ(got.has_value(), want.has_value()) << seed;
    if (want) {
      EXPECT_DOUBLE_EQ(*got, *want) << seed;
    }
  }
}

TEST(Auc, OfManyClassesEqualsTheCountOfAllPairs) {
  constexpr std::size_t kClasses = 4;
  Random random(9);
  std::vector<float> logits;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 50; ++i) {
    labels.push_back(static_cast<std::int32_t>(random.below(kClasses)));
    for (std::size_t c = 0; c < kClasses; ++c)
      logits.push_back(static_cast<float>(random.normal()));
  }
  double sum = 0;
  for (std::size_t c = 0; c < kClasses; ++c) {
    std::vector<double> scores;
    std::vector<bool> positive;
    for (std::size_t row = 0; row < labels.size(); ++row) {
      double total = 0;
      for (std::size_t k = 0; k < kClasses; ++k) {
        total += std::exp(static_cast<double>(logits[row * kClasses + k]));
      }
      scores.push_back(std::exp(static_cast<double>(logits[row * kClasses + c])) / total);
      positive.push_back(labels[row] == static_cast<std::int32_t>(c));
    }
    sum += *pairs(scores, positive) / kClasses;
  }
  EXPECT_DOUBLE_EQ(*auc_of("softmax_cross_entropy", {kClasses}, logits, {labels, {}}), sum);
}

}  // namespace
}  // namespace muster
