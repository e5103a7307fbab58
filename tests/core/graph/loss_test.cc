#include <gtest/gtest.h>

#include <limits>

#include "tests/core/graph/loss_reference.h"

// Every loss: its formula, its derivative, its parts, what is not finite.
namespace muster {
namespace {

const std::vector<Json> kLosses{
    {{"type", "softmax_cross_entropy"}},
    {{"type", "softmax_cross_entropy"}, {"label_smoothing", 0.15}},
    {{"type", "softmax_cross_entropy"}, {"class_weights", true}},
    {{"type", "softmax_cross_entropy"}, {"class_weights", true}, {"label_smoothing", 0.3}},
    {{"type", "bce_with_logits"}},
    {{"type", "bce_with_logits"}, {"pos_weight", 2.5}},
    {{"type", "bce_with_logits"}, {"pos_weight", true}},
    {{"type", "mse"}},
    {{"type", "mae"}},
    {{"type", "huber"}},
    {{"type", "huber"}, {"delta", 0.4}},
};

std::int64_t size_of(const Shape& shape) {
  return *element_count(shape);
}

// `true` stands for a list of weights that fits the shape.
Json completed(Json json, const Shape& shape, const std::string& reduction) {
  json["reduction"] = reduction;
  const auto weights = [](std::int64_t count) {
    std::vector<double> list;
    for (std::int64_t i = 0; i < count; ++i)
      list.push_back(0.25 + 0.5 * static_cast<double>(i % 5));
    return list;
  };
  if (json.contains("class_weights")) json["class_weights"] = weights(shape.back());
  if (json.contains("pos_weight") && json["pos_weight"].is_boolean()) {
    json["pos_weight"] = weights(size_of(shape));
  }
  return json;
}

class EveryLoss : public testing::TestWithParam<std::tuple<Json, std::string>> {
 protected:
  // Calls `body(json, loss, batch)` for a grid of shapes and batch sizes.
  template <typename Body>
  void for_each_shape(const std::vector<Shape>& shapes, const Body& body) {
    const auto& [given, reduction] = GetParam();
    for (const Shape& shape : shapes) {
      const Json json = completed(given, shape, reduction);
      const auto loss = loss_from_json(json, "loss", shape);
      ASSERT_TRUE(loss) << loss.error().message;
      for (const std::int64_t batch : {1, 2, 7, 33}) {
        SCOPED_TRACE(json.dump() + " " + to_string(shape) + " batch " + std::to_string(batch));
        body(json, **loss, reference::make_batch(**loss, size_of(shape), batch, 11));
      }
    }
  }
};

const std::vector<Shape> kShapes{{2}, {3}, {10}, {17}, {5, 4}, {2, 3, 9}};

TEST_P(EveryLoss, IsItsFormulaInDoublePrecision) {
  for_each_shape(kShapes, [](const Json& json, const Loss& loss, const reference::Batch& batch) {
    const std::vector<double> x(batch.prediction.begin(), batch.prediction.end());
    const double want = reference::loss_of(json, loss, x, batch);
    EXPECT_NEAR(loss.compute(batch.prediction, batch.target(), {}), want, 2e-6 * (1 + want));
  });
}

TEST_P(EveryLoss, GradientEqualsCentralDifferencesOfTheFormula) {
  for_each_shape(kShapes, [](const Json& json, const Loss& loss, const reference::Batch& batch) {
    std::vector<float> gradient(batch.prediction.size(), 77.0F);
    loss.compute(batch.prediction, batch.target(), gradient);
    std::vector<double> x(batch.prediction.begin(), batch.prediction.end());
    for (std::size_t i = 0; i < x.size(); i += 1 + x.size() / 40) {
      constexpr double kStep = 1e-5;
      const double before = x[i];
      x[i] = before + kStep;
      const double up = reference::loss_of(json, loss, x, batch);
      x[i] = before - kStep;
      const double down = reference::loss_of(json, loss, x, batch);
      x[i] = before;
      const double want = (up - down) / (2 * kStep);
      EXPECT_NEAR(gradient[i], want, 2e-6 + 2e-6 * std::abs(want)) << "element " << i;
    }
  });
}

TEST_P(EveryLoss, IsTheSameWithAndWithoutGradientAndAtEachCall) {
  // More than 2048 classes are worked on in pieces when there is no gradient.
  for_each_shape({{2}, {10}, {1000, 2}, {5003}},
                 [](const Json&, const Loss& loss, const reference::Batch& batch) {
                   std::vector<float> gradient(batch.prediction.size());
                   const double with = loss.compute(batch.prediction, batch.target(), gradient);
                   EXPECT_EQ(loss.compute(batch.prediction, batch.target(), {}), with);
                   std::vector<float> again(batch.prediction.size(), 5.0F);
                   EXPECT_EQ(loss.compute(batch.prediction, batch.target(), again), with);
                   EXPECT_EQ(gradient, again);
                 });
}

TEST_P(EveryLoss, PartsOfABatchAddUpToTheWhole) {
  for_each_shape(
      {{3}, {10}, {5, 4}}, [](const Json&, const Loss& loss, const reference::Batch& batch) {
        const auto count = batch.target().labels.size() + batch.target().values.size();
        const auto examples = count / static_cast<std::size_t>(loss.targets_per_example());
        const std::size_t width = batch.prediction.size() / examples;
        const std::size_t targets = count / examples;
        std::vector<float> want(batch.prediction.size());
        const double whole_loss = loss.compute(batch.prediction, batch.target(), want);
        for (const std::size_t most : {1U, 3U, 8U}) {  // examples in a part; the last one is short
          const auto part_of = [&](std::size_t at, std::size_t size) {
            TargetView part = batch.target();
            if (!part.labels.empty())
              part.labels = part.labels.subspan(at * targets, size * targets);
            if (!part.values.empty())
              part.values = part.values.subspan(at * targets, size * targets);
            return part;
          };
          double normaliser = 0;
          for (std::size_t at = 0; at < examples; at += most) {
            normaliser += loss.normaliser(part_of(at, std::min(most, examples - at)));
          }
          EXPECT_DOUBLE_EQ(normaliser, loss.normaliser(batch.target()));
          std::vector<float> got(batch.prediction.size());
          double sum = 0;
          for (std::size_t at = 0; at < examples; at += most) {
            const std::size_t size = std::min(most, examples - at);
            sum += loss.compute_part(std::span(batch.prediction).subspan(at * width, size * width),
                                     part_of(at, size), normaliser,
                                     std::span(got).subspan(at * width, size * width));
          }
          EXPECT_NEAR(sum, whole_loss, 1e-12 * (1 + whole_loss));
          for (std::size_t i = 0; i < want.size(); ++i) {
            EXPECT_FLOAT_EQ(got[i], want[i]) << "element " << i;
          }
        }
      });
}

TEST_P(EveryLoss, APredictionThatIsNotFiniteGivesALossThatIsNot) {
  for_each_shape({{2}, {13}, {2, 3}}, [](const Json&, const Loss& loss, reference::Batch batch) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      for (std::size_t i = 0; i < batch.prediction.size(); i += 1 + batch.prediction.size() / 30) {
        const float before = std::exchange(batch.prediction[i], bad);
        EXPECT_FALSE(std::isfinite(loss.compute(batch.prediction, batch.target(), {}))) << i;
        std::vector<float> gradient(batch.prediction.size());
        EXPECT_FALSE(std::isfinite(loss.compute(batch.prediction, batch.target(), gradient))) << i;
        batch.prediction[i] = before;
      }
    }
  });
}

TEST_P(EveryLoss, LargeFinitePredictionsGiveAFiniteLossAndGradient) {
  for_each_shape({{2}, {13}}, [](const Json&, const Loss& loss, reference::Batch batch) {
    for (std::size_t i = 0; i < batch.prediction.size(); ++i) {
      batch.prediction[i] = i % 3 == 0 ? 3e30F : i % 3 == 1 ? -3e30F : 1e4F;
    }
    std::vector<float> gradient(batch.prediction.size());
    EXPECT_TRUE(std::isfinite(loss.compute(batch.prediction, batch.target(), gradient)));
    EXPECT_EQ(find_non_finite(gradient), -1);
  });
}

TEST_P(EveryLoss, ItsJsonReadsBackToTheSame) {
  const auto& [given, reduction] = GetParam();
  const Json json = completed(given, {4}, reduction);
  const auto loss = loss_from_json(json, "loss", {4});
  ASSERT_TRUE(loss) << loss.error().message;
  const Json written = (*loss)->to_json();
  for (const auto& [key, value] : json.items()) EXPECT_EQ(written.at(key), value) << key;
  const auto again = loss_from_json(written, "loss", {4});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ((*again)->to_json(), written);
}

INSTANTIATE_TEST_SUITE_P(Losses, EveryLoss,
                         testing::Combine(testing::ValuesIn(kLosses),
                                          testing::Values("mean", "sum")));

TEST(Losses, EveryKindIsUnderTest) {
  for (const LossKind& kind : builtin_losses()) {
    EXPECT_TRUE(std::any_of(kLosses.begin(), kLosses.end(), [&](const Json& json) {
      return json.at("type") == std::string(kind.name);
    })) << kind.name;
  }
}

}  // namespace
}  // namespace muster
