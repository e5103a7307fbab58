#include "core/train/sgd.h"

#include <gmock/gmock.h>

#include <array>
#include <limits>

#include "core/base/random.h"

namespace muster {
namespace {

LayoutPtr layout_of(std::int64_t size) {
  return *StateLayout::create({{"w", {size}}});
}

StateDict random_state(const LayoutPtr& layout, std::uint64_t seed) {
  StateDict state(layout);
  Random random(seed);
  for (float& value : state.values()) value = static_cast<float>(random.normal());
  return state;
}

TEST(ProximalGradient, IsMuTimesTheDistanceExactly) {
  const LayoutPtr layout = layout_of(1001);
  const StateDict w = random_state(layout, 1);
  const StateDict global = random_state(layout, 2);
  for (const double mu : {0.001, 0.01, 0.1, 1.0, 10.0}) {
    StateDict gradient(layout);
    add_proximal_gradient(gradient.values(), w.values(), global.values(), mu);
    for (std::size_t i = 0; i < 1001; ++i) {
      const float distance = w.values()[i] - global.values()[i];
      ASSERT_EQ(gradient.values()[i], static_cast<float>(mu) * distance);
    }
  }
}

TEST(ProximalGradient, IsZeroAtTheGlobalState) {
  const StateDict w = random_state(layout_of(33), 1);
  StateDict gradient(w.layout_ptr());
  add_proximal_gradient(gradient.values(), w.values(), w.values(), 5.0);
  EXPECT_THAT(gradient.values(), testing::Each(0.0F));
}

class SgdForms : public testing::TestWithParam<OptimizerSettings> {};

TEST_P(SgdForms, FusedProximalStepHasTheBitsOfTheSeparateOne) {
  const LayoutPtr layout = layout_of(517);
  const StateDict global = random_state(layout, 3);
  const std::array ranges{Graph::Range{0, 517}};
  StateDict fused = random_state(layout, 1);
  StateDict separate = fused.clone();
  const Sgd sgd(GetParam());
  SgdState fused_state;
  SgdState separate_state;
  for (std::uint64_t step = 0; step < 4; ++step) {
    StateDict gradient = random_state(layout, 10 + step);
    sgd.step(fused, gradient, ranges, {.mu = 0.3, .global = &global}, fused_state);
    add_proximal_gradient(gradient.values(), separate.values(), global.values(), 0.3);
    sgd.step(separate, gradient, ranges, {}, separate_state);
    EXPECT_TRUE(fused == separate) << "step " << step;
  }
  EXPECT_EQ(fused_state.steps, 4);
}

// torch.optim.SGD's definition, written plainly, in double.
TEST_P(SgdForms, FollowsTheDefinition) {
  const OptimizerSettings settings = GetParam();
  const LayoutPtr layout = layout_of(97);
  const std::array ranges{Graph::Range{0, 97}};
  StateDict w = random_state(layout, 1);
  std::vector<double> want(w.values().begin(), w.values().end());
  std::vector<double> buffer(97);
  const Sgd sgd(settings);
  SgdState state;
  for (std::uint64_t step = 0; step < 5; ++step) {
    const StateDict gradient = random_state(layout, 20 + step);
    sgd.step(w, gradient, ranges, {}, state);
    for (std::size_t i = 0; i < 97; ++i) {
      double g = gradient.values()[i] + settings.weight_decay * want[i];
      if (settings.momentum > 0) {
        buffer[i] = step == 0 ? g : settings.momentum * buffer[i] + (1 - settings.dampening) * g;
        g = settings.nesterov ? g + settings.momentum * buffer[i] : buffer[i];
      }
      want[i] -= settings.lr * g;
      EXPECT_NEAR(w.values()[i], want[i], 1e-6) << "step " << step << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, SgdForms,
    testing::Values(OptimizerSettings{.lr = 0.1},
                    OptimizerSettings{.lr = 0.1, .weight_decay = 0.01},
                    OptimizerSettings{.lr = 0.1, .momentum = 0.9},
                    OptimizerSettings{.lr = 0.1, .momentum = 0.9, .dampening = 0.5},
                    OptimizerSettings{.lr = 0.1, .momentum = 0.9, .nesterov = true},
                    OptimizerSettings{
                        .lr = 0.1, .momentum = 0.8, .weight_decay = 0.02, .nesterov = true}));

TEST(Sgd, MovesOnlyTheRangesAskedFor) {
  const LayoutPtr layout = layout_of(10);
  StateDict w = random_state(layout, 1);
  const StateDict before = w.clone();
  StateDict gradient(layout);
  std::fill(gradient.values().begin(), gradient.values().end(), 1.0F);
  SgdState state;
  const std::array ranges{Graph::Range{2, 3}, Graph::Range{8, 1}};
  Sgd({.lr = 1.0}).step(w, gradient, ranges, {}, state);
  for (std::size_t i = 0; i < 10; ++i) {
    const bool moves = (i >= 2 && i < 5) || i == 8;
    EXPECT_EQ(w.values()[i], moves ? before.values()[i] - 1.0F : before.values()[i]);
  }
}

TEST(LocalSettings, RoundTripWithEveryField) {
  LocalSettings settings;
  settings.epochs = 3;
  settings.max_steps = 7;
  settings.batch_size = 10;
  settings.shuffle = false;
  settings.optimizer = {
      .lr = 0.5, .momentum = 0.9, .dampening = 0, .weight_decay = 0.001, .nesterov = true};
  settings.mu = 0.25;
  const auto again = local_settings_from_json(to_json(settings), "local");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_json(*again), to_json(settings));
  EXPECT_EQ(again->mu, 0.25);
  EXPECT_TRUE(again->optimizer.nesterov);
}

TEST(LocalSettings, DefaultsAreThoseOfTheHeader) {
  const auto settings = local_settings_from_json(Json::object(), "local");
  ASSERT_TRUE(settings);
  EXPECT_EQ(to_json(*settings), to_json(LocalSettings{}));
}

TEST(LocalSettings, AnOptimizerWithoutTypeIsSgd) {
  const auto settings = local_settings_from_json({{"optimizer", {{"lr", 0.5}}}}, "local");
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->optimizer.type, "sgd");
  EXPECT_EQ(settings->optimizer.lr, 0.5);
}

TEST(LocalSettings, RefusesWhatIsOutOfRangeNamingTheField) {
  const std::vector<std::pair<Json, std::string>> cases{
      {{{"epochs", 0}}, "local.epochs"},
      {{{"epochs", 1.5}}, "local.epochs"},
      {{{"max_steps", -1}}, "local.max_steps"},
      {{{"batch_size", 0}}, "local.batch_size"},
      {{{"shuffle", 1}}, "local.shuffle"},
      {{{"mu", -0.1}}, "local.mu"},
      {{{"epoch", 1}}, "epoch"},
      {{{"optimizer", {{"type", "adam"}}}}, "local.optimizer.type"},
      {{{"optimizer", {{"type", "sgd"}, {"lr", -1}}}}, "local.optimizer.lr"},
      {{{"optimizer", {{"type", "sgd"}, {"momentum", 1.0}}}}, "local.optimizer.momentum"},
      {{{"optimizer", {{"type", "sgd"}, {"nesterov", true}}}}, "local.optimizer.nesterov"},
      {{{"optimizer", 3}}, "local.optimizer"}};
  for (const auto& [json, field] : cases) {
    const auto settings = local_settings_from_json(json, "local");
    ASSERT_FALSE(settings) << json;
    EXPECT_THAT(settings.error().message, testing::HasSubstr(field));
  }
}

}  // namespace
}  // namespace muster
