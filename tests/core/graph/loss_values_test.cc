#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/graph/loss.h"
#include "core/graph/losses/exponential.h"

// Losses against values from elsewhere, and what their attributes may be.
namespace muster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

std::unique_ptr<Loss> make(const Json& json, const Shape& shape) {
  auto loss = loss_from_json(json, "loss", shape);
  if (!loss) throw std::runtime_error(loss.error().message);
  return *std::move(loss);
}

std::string refusal(const Json& json, const Shape& shape) {
  const auto loss = loss_from_json(json, "graph.loss", shape);
  if (loss) return "was not refused";
  EXPECT_EQ(loss.error().code, ErrorCode::kInvalidArgument);
  return loss.error().message;
}

// torch 1.13.1 in double precision: cross_entropy(x, y, weight, label_smoothing).
const std::vector<float> kLogits{0.5F,  -1.25F, 2.0F, 1.5F, 0.25F, -0.75F,
                                 -2.0F, 3.0F,   0.5F, 0.0F, 1.0F,  -1.0F};
const std::vector<std::int32_t> kLabels{2, 0, 1, 2};
const Json kWeights = {1.0, 0.5, 3.0};

TEST(CrossEntropy, WithClassWeightsEqualsTorch) {
  const auto loss = make({{"type", "softmax_cross_entropy"}, {"class_weights", kWeights}}, {3});
  std::vector<float> gradient(12);
  // The weights of the labels: 3 + 1 + 0.5 + 3.
  EXPECT_EQ(loss->normaliser({kLabels, {}}), 7.5);
  EXPECT_NEAR(loss->compute(kLogits, {kLabels, {}}, gradient), 1.1058540100304826, 1e-7);
  EXPECT_THAT(gradient,
              Pointwise(FloatNear(1e-7F),
                        {0.070728072843, 0.0122906961306, -0.0830187689736, -0.0375412878465,
                         0.027444880533, 0.0100964073135, 0.00041255235152, -0.00543846888239,
                         0.00502591653087, 0.0978913884219, 0.26609638231, -0.363987770732}));
}

TEST(CrossEntropy, WithClassWeightsAndSmoothingEqualsTorch) {
  Json json{
      {"type", "softmax_cross_entropy"}, {"class_weights", kWeights}, {"label_smoothing", 0.1}};
  std::vector<float> gradient(12);
  EXPECT_NEAR(make(json, {3})->compute(kLogits, {kLabels, {}}, gradient), 1.1497218984271265, 1e-7);
  EXPECT_THAT(gradient,
              Pointwise(FloatNear(1e-7F),
                        {0.0627472247564, 0.00945393910182, -0.0722011638582, -0.0238627966833,
                         0.0265949023374, -0.00273210565415, -0.00394938162262, 0.0112516151189,
                         -0.00730223349629, 0.0885523745564, 0.250569340972, -0.339121715529}));
  json["reduction"] = "sum";
  EXPECT_NEAR(make(json, {3})->compute(kLogits, {kLabels, {}}, {}), 8.622914238203448, 1e-6);
}

TEST(CrossEntropy, ABatchWhoseLabelsAllWeighNothingCountsForNothing) {
  const auto loss = make({{"type", "softmax_cross_entropy"},
                          {"class_weights", {0.0, 1.0, 1.0}},
                          {"label_smoothing", 0.1}},
                         {3});
  const std::vector<float> x{1, 2, 3, 3, 2, 1};
  std::vector<float> gradient(6, 77.0F);
  const std::vector<std::int32_t> labels{0, 0};
  EXPECT_EQ(loss->compute(x, {labels, {}}, gradient), 0.0);
  EXPECT_THAT(gradient, testing::Each(0.0F));
}

TEST(CrossEntropy, AnUnlikelyLabelOfManyClassesHasItsExactLoss) {
  // 3000 equal logits and one that is 50 higher: -log p = 50 + log(1 + 2999 e^-50).
  std::vector<float> x(3000, 1.0F);
  x[7] = 51.0F;
  const std::vector<std::int32_t> labels{2999};
  const auto loss = make({{"type", "softmax_cross_entropy"}}, {3000});
  EXPECT_NEAR(loss->compute(x, {labels, {}}, {}), 50.0, 1e-12);
  std::vector<float> gradient(3000);
  loss->compute(x, {labels, {}}, gradient);
  EXPECT_FLOAT_EQ(gradient[7], 1.0F);
  EXPECT_FLOAT_EQ(gradient[2999], -1.0F);
}

TEST(CrossEntropy, TakesALabelForEachPosition) {
  const auto loss = make({{"type", "softmax_cross_entropy"}}, {2, 2});
  EXPECT_EQ(loss->targets_per_example(), 2);
  EXPECT_EQ(loss->num_classes(), 2);
  // Two examples of two positions, all logits equal: log 2 for each of the four labels.
  const std::vector<float> x(8, 0.5F);
  const std::vector<std::int32_t> labels{0, 1, 1, 0};
  std::vector<float> gradient(8);
  EXPECT_NEAR(loss->compute(x, {labels, {}}, gradient), std::log(2.0), 1e-12);
  EXPECT_THAT(gradient,
              ElementsAre(-0.125F, 0.125F, 0.125F, -0.125F, 0.125F, -0.125F, -0.125F, 0.125F));
}

TEST(CrossEntropy, CountsTheFirstOfEqualLogitsAsThePrediction) {
  const auto loss = make({{"type", "softmax_cross_entropy"}}, {3});
  const std::vector<float> x{1, 2, 2, 1, 2, 2, std::numeric_limits<float>::quiet_NaN(), 0, 0};
  const std::vector<std::int32_t> labels{1, 2, 0};
  EXPECT_EQ(loss->count_correct(x, {labels, {}}), 1);
}

TEST(BinaryCrossEntropy, WithPosWeightsEqualsTorch) {
  const auto loss = make({{"type", "bce_with_logits"}, {"pos_weight", {2.0, 0.5}}}, {2});
  const std::vector<float> x{-0.5F, 2.0F, 1.25F, -3.0F, 0.0F, 0.75F};
  const std::vector<float> t{1, 0.25F, 0, 1, 1, 1};
  std::vector<float> gradient(6);
  EXPECT_NEAR(loss->compute(x, {{}, t}, gradient), 1.3608614332220663, 1e-12);
  EXPECT_THAT(gradient, Pointwise(FloatNear(1e-7F), {-0.20748644373395153, 0.10761624053844117,
                                                     0.1295499768624485, -0.07938117723520277,
                                                     -0.16666666666666666, -0.026735108402050584}));
}

TEST(HuberAndMae, EqualTorchAlsoAtTheirCorners) {
  const std::vector<float> x{-3.0F, -0.75F, -0.5F, 0.0F, 0.25F, 0.75F, 4.0F};
  const std::vector<float> t(7, 0.0F);
  std::vector<float> g(7);
  const auto huber = make({{"type", "huber"}, {"delta", 0.75}}, {7});
  EXPECT_NEAR(huber->compute(x, {{}, t}, g), 0.7723214285714286, 1e-12);
  EXPECT_THAT(g, Pointwise(FloatNear(1e-7F),
                           {-0.75 / 7, -0.75 / 7, -0.5 / 7, 0.0, 0.25 / 7, 0.75 / 7, 0.75 / 7}));
  EXPECT_NEAR(make({{"type", "mae"}}, {7})->compute(x, {{}, t}, g), 1.3214285714285714, 1e-12);
  EXPECT_THAT(g, Pointwise(FloatNear(1e-7F),
                           {-1.0 / 7, -1.0 / 7, -1.0 / 7, 0.0, 1.0 / 7, 1.0 / 7, 1.0 / 7}));
}

TEST(Losses, AnUnknownTypeListsTheKnownOnes) {
  EXPECT_THAT(refusal({{"type", "hinge"}}, {3}),
              AllOf(HasSubstr("graph.loss.type"), HasSubstr("hinge"),
                    HasSubstr("bce_with_logits, huber, mae, mse, softmax_cross_entropy")));
}

TEST(Losses, RefuseAttributesThatAreNone) {
  const auto field = [](const char* type, const char* key, const Json& value) {
    return refusal({{"type", type}, {key, value}}, {3});
  };
  EXPECT_THAT(field("mse", "reduction", "none"), HasSubstr("known are mean, sum"));
  EXPECT_THAT(field("mse", "delta", 1), HasSubstr("delta"));
  EXPECT_THAT(field("huber", "delta", 0), HasSubstr("graph.loss.delta"));
  EXPECT_THAT(field("huber", "delta", -1), HasSubstr("-1"));
  EXPECT_THAT(field("softmax_cross_entropy", "label_smoothing", 1.0), HasSubstr("label_smoothing"));
  for (const Json& weights : {Json{1, 2}, Json{1, 2, 3, 4}, Json{1, -1, 1}, Json{0, 0, 0},
                              Json{1, "2", 3}, Json{1, 1e39, 1}, Json(3), Json::array()}) {
    EXPECT_THAT(field("softmax_cross_entropy", "class_weights", weights),
                AllOf(HasSubstr("graph.loss.class_weights"), HasSubstr("list of 3 numbers")));
  }
  EXPECT_THAT(field("bce_with_logits", "pos_weight", -0.5), HasSubstr("graph.loss.pos_weight"));
  EXPECT_THAT(field("bce_with_logits", "pos_weight", Json{1, 2}), HasSubstr("list of 3 numbers"));
  EXPECT_THAT(refusal({{"type", "softmax_cross_entropy"}}, {4, 1}), HasSubstr("[4, 1]"));
}

TEST(Exponential, IsWithinTwoUnitsInTheLastPlace) {
  for (float x = -87.0F; x <= 0.0F; x += 0.00071F) {
    const double want = std::exp(static_cast<double>(x));
    const double unit = std::ldexp(1.0, std::ilogb(want) - 23);
    ASSERT_NEAR(losses::exp_of_non_positive(x), want, 2 * unit) << x;
  }
  EXPECT_EQ(losses::exp_of_non_positive(0.0F), 1.0F);
  EXPECT_EQ(losses::exp_of_non_positive(-0.0F), 1.0F);
  EXPECT_EQ(losses::exp_of_non_positive(-90.0F), 0.0F);
  EXPECT_EQ(losses::exp_of_non_positive(-3e38F), 0.0F);
  EXPECT_EQ(losses::exp_of_non_positive(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_TRUE(std::isnan(losses::exp_of_non_positive(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace muster
