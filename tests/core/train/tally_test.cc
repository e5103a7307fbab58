#include "core/train/tally.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace muster {
namespace {

class Tallied : public testing::TestWithParam<const char*> {
 protected:
  Tallied()
      : loss_(*loss_from_json({{"type", "softmax_cross_entropy"},
                               {"class_weights", {1.0, 4.0}},
                               {"reduction", GetParam()}},
                              "loss", {2})) {}

  // Examples `begin` to `end` as one batch, in parts of `size`.
  void add(Tally& tally, std::size_t begin, std::size_t end, std::size_t size) const {
    const std::span<const float> logits(logits_);
    const std::span<const std::int32_t> labels(labels_);
    const double whole = loss_->normaliser({labels.subspan(begin, end - begin), {}});
    double value = 0;
    for (std::size_t at = begin; at < end; at += size) {
      const std::size_t count = std::min(size, end - at);
      const TargetView target{labels.subspan(at, count), {}};
      const auto prediction = logits.subspan(2 * at, 2 * count);
      value += loss_->compute_part(prediction, target, whole, {});
      tally.count_correct(prediction, target);
    }
    tally.add(value, whole, static_cast<std::int64_t>(end - begin));
  }

  const std::vector<float> logits_{1, 2, 0, 3, -1, 1, 2, 2};
  const std::vector<std::int32_t> labels_{0, 1, 1, 0};
  std::unique_ptr<Loss> loss_;
};

TEST_P(Tallied, PartsOfABatchGiveWhatTheBatchGives) {
  Tally whole(*loss_);
  add(whole, 0, 4, 4);
  const TargetView all{labels_, {}};
  const double batch = loss_->compute(logits_, all, {});
  EXPECT_NEAR(whole.mean_loss(), std::string(GetParam()) == "sum" ? batch / 4 : batch, 1e-12);
  EXPECT_EQ(whole.accuracy(), 0.75);
  for (const std::size_t size : {1U, 3U}) {
    Tally parts(*loss_);
    add(parts, 0, 4, size);
    EXPECT_NEAR(parts.mean_loss(), whole.mean_loss(), 1e-12);
    EXPECT_EQ(parts.accuracy(), whole.accuracy());
    EXPECT_EQ(parts.figures().examples, 4);
  }
}

TEST_P(Tallied, BatchesOfUnequalWeightGiveTheMeanOfAll) {
  Tally whole(*loss_);
  add(whole, 0, 4, 4);
  Tally batches(*loss_);
  add(batches, 0, 1, 1);  // label 0, weight 1
  add(batches, 1, 4, 3);  // weights 4, 4 and 1
  EXPECT_NEAR(batches.mean_loss(), whole.mean_loss(), 1e-12);
  EXPECT_EQ(batches.accuracy(), whole.accuracy());
}

TEST_P(Tallied, GoesOnFromItsFiguresWithTheSameBits) {
  Tally through(*loss_);
  add(through, 0, 1, 1);
  Tally again(*loss_, through.figures());
  add(through, 1, 4, 2);
  add(again, 1, 4, 2);
  EXPECT_EQ(again.mean_loss(), through.mean_loss());
  EXPECT_EQ(again.accuracy(), through.accuracy());
  EXPECT_EQ(again.figures().weight, through.figures().weight);
}

INSTANTIATE_TEST_SUITE_P(Reductions, Tallied, testing::Values("mean", "sum"));

TEST(Tally, HasNoAccuracyOfNothing) {
  const auto classes = loss_from_json({{"type", "softmax_cross_entropy"}}, "loss", {2});
  const auto numbers = loss_from_json({{"type", "mse"}}, "loss", {1});
  ASSERT_TRUE(classes && numbers);
  EXPECT_EQ(Tally(**classes).accuracy(), std::nullopt);
  EXPECT_EQ(Tally(**classes).mean_loss(), 0.0);
  Tally tally(**numbers);
  const std::vector<float> value{1};
  tally.count_correct(value, {{}, value});
  tally.add(0.5, 1, 1);
  EXPECT_EQ(tally.accuracy(), std::nullopt) << "mse knows no right and wrong";
  EXPECT_EQ(tally.mean_loss(), 0.5);
}

TEST(Tally, WeighsABatchWithoutWeightAsNothing) {
  const auto loss = loss_from_json(
      {{"type", "softmax_cross_entropy"}, {"class_weights", {0.0, 1.0}}}, "loss", {2});
  Tally tally(**loss);
  tally.add(0, 0, 3);
  EXPECT_EQ(tally.mean_loss(), 0.0);
  tally.add(2, 5, 5);
  EXPECT_EQ(tally.mean_loss(), 2.0);
  tally.add(std::numeric_limits<double>::quiet_NaN(), 0, 1);
  EXPECT_TRUE(std::isnan(tally.mean_loss()));
}

}  // namespace
}  // namespace muster
