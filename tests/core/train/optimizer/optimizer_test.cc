#include "core/train/optimizer/optimizer.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
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

OptimizerSettings settings_of(const Json& json) {
  auto settings = optimizer_settings_from_json(json, "optimizer");
  EXPECT_TRUE(settings) << settings.error().message;
  return *settings;
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

// The definitions of torch.optim, one element, in double.
class Reference {
 public:
  explicit Reference(const Json& settings) : settings_(settings) {}

  double step(double w, double g) {
    ++steps_;
    const std::string type = settings_.at("type");
    const double lr = of("lr");
    if (type == "adamw") {
      w *= 1 - lr * of("weight_decay");
    } else {
      g += of("weight_decay") * w;
    }
    if (type == "sgd") return w - lr * sgd(g);
    if (type == "adagrad") return w - lr / (1 + (steps_ - 1) * of("lr_decay")) * adagrad(g);
    if (type == "rmsprop") return w - lr * rmsprop(g);
    return w - lr * adam(g);
  }

 private:
  double of(const char* name) const { return settings_.at(name); }

  double sgd(double g) {
    const double momentum = of("momentum");
    if (momentum == 0) return g;
    first_ = steps_ == 1 ? g : momentum * first_ + (1 - of("dampening")) * g;
    return settings_.at("nesterov") ? g + momentum * first_ : first_;
  }
  double adam(double g) {
    const double beta1 = settings_.at("betas")[0];
    const double beta2 = settings_.at("betas")[1];
    first_ = beta1 * first_ + (1 - beta1) * g;
    square_ = beta2 * square_ + (1 - beta2) * g * g;
    const double mean = first_ / (1 - std::pow(beta1, steps_));
    return mean / (std::sqrt(square_ / (1 - std::pow(beta2, steps_))) + of("eps"));
  }
  double adagrad(double g) {
    if (steps_ == 1) square_ = of("initial_accumulator_value");
    square_ += g * g;
    return g / (std::sqrt(square_) + of("eps"));
  }
  double rmsprop(double g) {
    const double alpha = of("alpha");
    square_ = alpha * square_ + (1 - alpha) * g * g;
    double spread = square_;
    if (settings_.at("centered")) {
      first_ = alpha * first_ + (1 - alpha) * g;
      spread -= first_ * first_;
    }
    const double move = g / (std::sqrt(spread) + of("eps"));
    if (of("momentum") == 0) return move;
    buffer_ = of("momentum") * buffer_ + move;
    return buffer_;
  }

  Json settings_;
  int steps_ = 0;
  double first_ = 0;
  double square_ = 0;
  double buffer_ = 0;
};

class OptimizerForms : public testing::TestWithParam<Json> {};

TEST_P(OptimizerForms, FollowsTheDefinition) {
  constexpr std::size_t kSize = 97;
  const LayoutPtr layout = layout_of(kSize);
  const std::array ranges{Graph::Range{0, kSize}};
  const OptimizerSettings settings = settings_of(GetParam());
  const auto optimizer = Optimizer::create(settings);
  OptimizerState state = optimizer->start(layout);
  StateDict w = random_state(layout, 1);
  std::vector<double> want(w.values().begin(), w.values().end());
  std::vector<Reference> references(kSize, Reference(to_json(settings)));
  for (std::uint64_t step = 0; step < 20; ++step) {
    const StateDict gradient = random_state(layout, 20 + step);
    ASSERT_TRUE(optimizer->step(w, gradient, ranges, {.lr = settings.lr}, state));
    for (std::size_t i = 0; i < kSize; ++i) {
      want[i] = references[i].step(want[i], gradient.values()[i]);
      ASSERT_NEAR(w.values()[i], want[i], 2e-5 * (1 + std::abs(want[i])))
          << "step " << step << " element " << i;
    }
  }
  EXPECT_EQ(state.steps, 20);
}

TEST_P(OptimizerForms, FusedProximalAndScaledStepHasTheBitsOfTheSeparateOne) {
  const LayoutPtr layout = layout_of(517);
  const StateDict global = random_state(layout, 3);
  const std::array ranges{Graph::Range{0, 517}};
  const OptimizerSettings settings = settings_of(GetParam());
  const auto optimizer = Optimizer::create(settings);
  StateDict fused = random_state(layout, 1);
  StateDict separate = fused.clone();
  OptimizerState fused_state = optimizer->start(layout);
  OptimizerState separate_state = optimizer->start(layout);
  for (std::uint64_t step = 0; step < 4; ++step) {
    StateDict gradient = random_state(layout, 10 + step);
    const Optimizer::Step together{
        .lr = settings.lr, .scale = 0.7, .proximal = {.mu = 0.3, .global = &global}};
    optimizer->step(fused, gradient, ranges, together, fused_state);
    add_proximal_gradient(gradient.values(), separate.values(), global.values(), 0.3);
    for (float& value : gradient.values()) value *= 0.7F;
    optimizer->step(separate, gradient, ranges, {.lr = settings.lr}, separate_state);
    EXPECT_TRUE(fused == separate) << "step " << step;
  }
}

TEST_P(OptimizerForms, TwoWorkersGiveTheBitsOfOne) {
  const LayoutPtr layout = layout_of(200'003);
  const std::array ranges{Graph::Range{1, 100'000}, Graph::Range{100'002, 100'000}};
  const OptimizerSettings settings = settings_of(GetParam());
  const auto optimizer = Optimizer::create(settings);
  Workers workers(2);
  StateDict alone = random_state(layout, 1);
  StateDict shared = alone.clone();
  OptimizerState alone_state = optimizer->start(layout);
  OptimizerState shared_state = optimizer->start(layout);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const StateDict gradient = random_state(layout, 10 + step);
    optimizer->step(alone, gradient, ranges, {.lr = settings.lr}, alone_state);
    optimizer->step(shared, gradient, ranges, {.lr = settings.lr, .workers = &workers},
                    shared_state);
  }
  EXPECT_TRUE(alone == shared);
  for (std::size_t i = 0; i < alone_state.moments.size(); ++i) {
    EXPECT_TRUE(alone_state.moments[i] == shared_state.moments[i]);
  }
}

TEST_P(OptimizerForms, MovesOnlyTheRangesAskedFor) {
  const LayoutPtr layout = layout_of(10);
  const OptimizerSettings settings = settings_of(GetParam());
  const auto optimizer = Optimizer::create(settings);
  OptimizerState state = optimizer->start(layout);
  StateDict w = random_state(layout, 1);
  const StateDict before = w.clone();
  StateDict gradient(layout);
  std::fill(gradient.values().begin(), gradient.values().end(), 1.0F);
  const std::array ranges{Graph::Range{2, 3}, Graph::Range{8, 1}};
  optimizer->step(w, gradient, ranges, {.lr = settings.lr}, state);
  for (std::size_t i = 0; i < 10; ++i) {
    const bool moves = (i >= 2 && i < 5) || i == 8;
    EXPECT_EQ(w.values()[i] != before.values()[i], moves) << i;
  }
}

TEST_P(OptimizerForms, SaysWhenAWeightIsNoLongerFinite) {
  const LayoutPtr layout = layout_of(40);
  const OptimizerSettings settings = settings_of(GetParam());
  const auto optimizer = Optimizer::create(settings);
  const std::array ranges{Graph::Range{0, 40}};
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    OptimizerState state = optimizer->start(layout);
    StateDict w = random_state(layout, 1);
    StateDict gradient = random_state(layout, 2);
    EXPECT_TRUE(optimizer->step(w, gradient, ranges, {.lr = settings.lr}, state));
    gradient.values()[37] = bad;
    EXPECT_FALSE(optimizer->step(w, gradient, ranges, {.lr = settings.lr}, state));
  }
}

TEST_P(OptimizerForms, SettingsReadBackWithEveryDefaultWrittenOut) {
  const OptimizerSettings settings = settings_of(GetParam());
  const Json written = to_json(settings);
  EXPECT_EQ(to_json(settings_of(written)), written);
  for (const auto& [key, value] : GetParam().items()) EXPECT_EQ(written.at(key), value) << key;
}

INSTANTIATE_TEST_SUITE_P(
    All, OptimizerForms,
    testing::Values(
        Json{{"type", "sgd"}, {"lr", 0.1}},
        Json{{"type", "sgd"}, {"lr", 0.1}, {"weight_decay", 0.01}},
        Json{{"type", "sgd"}, {"lr", 0.1}, {"momentum", 0.9}},
        Json{{"type", "sgd"}, {"lr", 0.1}, {"momentum", 0.9}, {"dampening", 0.5}},
        Json{{"type", "sgd"}, {"lr", 0.1}, {"momentum", 0.9}, {"nesterov", true}},
        Json{{"type", "sgd"}, {"momentum", 0.8}, {"weight_decay", 0.02}, {"nesterov", true}},
        Json{{"type", "adam"}},
        Json{{"type", "adam"}, {"lr", 0.1}, {"betas", {0.8, 0.9}}, {"weight_decay", 0.1}},
        Json{{"type", "adam"}, {"lr", 0.1}, {"betas", {0.0, 0.0}}, {"eps", 0.5}},
        Json{{"type", "adamw"}, {"lr", 0.1}},
        Json{{"type", "adamw"}, {"lr", 0.1}, {"weight_decay", 0}, {"eps", 0.01}},
        Json{{"type", "adagrad"}},
        Json{{"type", "adagrad"},
             {"lr", 0.5},
             {"lr_decay", 0.1},
             {"weight_decay", 0.1},
             {"initial_accumulator_value", 0.3},
             {"eps", 0.001}},
        Json{{"type", "rmsprop"}},
        Json{{"type", "rmsprop"}, {"lr", 0.1}, {"alpha", 0.9}, {"weight_decay", 0.1}},
        Json{{"type", "rmsprop"}, {"momentum", 0.9}, {"eps", 0.01}},
        Json{{"type", "rmsprop"}, {"alpha", 0.5}, {"centered", true}, {"eps", 0.1}},
        Json{{"type", "rmsprop"},
             {"alpha", 0.5},
             {"centered", true},
             {"eps", 0.1},
             {"momentum", 0.5},
             {"weight_decay", 0.1}}));

TEST(OptimizerSettings, DefaultsAreThoseOfTorch) {
  EXPECT_EQ(to_json(settings_of({{"type", "adam"}})), Json({{"type", "adam"},
                                                            {"lr", 0.001},
                                                            {"betas", {0.9, 0.999}},
                                                            {"eps", 1e-8},
                                                            {"weight_decay", 0.0}}));
  EXPECT_EQ(to_json(settings_of({{"type", "adamw"}})), Json({{"type", "adamw"},
                                                             {"lr", 0.001},
                                                             {"betas", {0.9, 0.999}},
                                                             {"eps", 1e-8},
                                                             {"weight_decay", 0.01}}));
  EXPECT_EQ(to_json(settings_of({{"type", "adagrad"}})), Json({{"type", "adagrad"},
                                                               {"lr", 0.01},
                                                               {"lr_decay", 0.0},
                                                               {"weight_decay", 0.0},
                                                               {"initial_accumulator_value", 0.0},
                                                               {"eps", 1e-10}}));
  EXPECT_EQ(to_json(settings_of({{"type", "rmsprop"}})), Json({{"type", "rmsprop"},
                                                               {"lr", 0.01},
                                                               {"alpha", 0.99},
                                                               {"eps", 1e-8},
                                                               {"weight_decay", 0.0},
                                                               {"momentum", 0.0},
                                                               {"centered", false}}));
}

TEST(OptimizerSettings, WithoutTypeItIsSgd) {
  const OptimizerSettings settings = settings_of({{"lr", 0.5}, {"momentum", 0.9}});
  EXPECT_EQ(settings.type(), "sgd");
  EXPECT_EQ(settings.lr, 0.5);
  EXPECT_EQ(std::get<SgdSettings>(settings.rule).momentum, 0.9);
}

TEST(OptimizerSettings, RefusesWhatIsOutOfRangeOrBelongsToAnotherType) {
  const std::vector<std::pair<Json, std::string>> cases{
      {{{"type", "lion"}}, "optimizer.type: unknown \"lion\""},
      {{{"type", 3}}, "optimizer.type"},
      {3, "optimizer"},
      {{{"lr", -1}}, "optimizer.lr"},
      {{{"lr", "0.1"}}, "optimizer.lr"},
      {{{"momentum", 1.0}}, "optimizer.momentum"},
      {{{"dampening", 1.5}}, "optimizer.dampening"},
      {{{"weight_decay", -0.1}}, "optimizer.weight_decay"},
      {{{"nesterov", true}}, "optimizer.nesterov"},
      {{{"momentum", 0.5}, {"dampening", 0.5}, {"nesterov", true}}, "optimizer.nesterov"},
      {{{"betas", {0.9, 0.999}}}, "optimizer.betas: unknown field"},
      {{{"type", "adam"}, {"momentum", 0.9}}, "optimizer.momentum: unknown field"},
      {{{"type", "adam"}, {"betas", {0.9, 1.0}}}, "optimizer.betas"},
      {{{"type", "adam"}, {"betas", {0.9}}}, "optimizer.betas"},
      {{{"type", "adam"}, {"betas", {0.9, "0.9"}}}, "optimizer.betas"},
      {{{"type", "adam"}, {"betas", 0.9}}, "optimizer.betas"},
      {{{"type", "adam"}, {"eps", 0}}, "optimizer.eps"},
      {{{"type", "adamw"}, {"amsgrad", true}}, "optimizer.amsgrad: unknown field"},
      {{{"type", "adagrad"}, {"lr_decay", -1}}, "optimizer.lr_decay"},
      {{{"type", "adagrad"}, {"initial_accumulator_value", -1}},
       "optimizer.initial_accumulator_value"},
      {{{"type", "adagrad"}, {"alpha", 0.9}}, "optimizer.alpha: unknown field"},
      {{{"type", "rmsprop"}, {"alpha", 1.0}}, "optimizer.alpha"},
      {{{"type", "rmsprop"}, {"centered", 1}}, "optimizer.centered"},
      {{{"type", "rmsprop"}, {"lr_decay", 0}}, "optimizer.lr_decay: unknown field"}};
  for (const auto& [json, message] : cases) {
    const auto settings = optimizer_settings_from_json(json, "optimizer");
    ASSERT_FALSE(settings) << json;
    EXPECT_EQ(settings.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(settings.error().message, testing::HasSubstr(message));
  }
}

TEST(Optimizer, KeepsTheMomentsThatTorchKeeps) {
  const auto names = [](const Json& json) {
    std::vector<std::string> found;
    const auto optimizer = Optimizer::create(settings_of(json));
    for (const Moment& moment : optimizer->moments()) {
      found.emplace_back(moment.name);
    }
    return found;
  };
  using testing::ElementsAre;
  EXPECT_THAT(names({{"type", "sgd"}}), ElementsAre());
  EXPECT_THAT(names({{"type", "sgd"}, {"momentum", 0.5}}), ElementsAre("momentum_buffer"));
  EXPECT_THAT(names({{"type", "adam"}}), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(names({{"type", "adamw"}}), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(names({{"type", "adagrad"}}), ElementsAre("sum"));
  EXPECT_THAT(names({{"type", "rmsprop"}, {"centered", true}, {"momentum", 0.5}}),
              ElementsAre("square_avg", "grad_avg", "momentum_buffer"));
}

// Of equal gradients the spread is 0, and rounding leaves it on either side.
TEST(Rmsprop, CenteredStaysFiniteWhenGradientsDoNotChange) {
  const LayoutPtr layout = layout_of(64);
  const auto optimizer = Optimizer::create(
      settings_of({{"type", "rmsprop"}, {"alpha", 0.3}, {"centered", true}, {"eps", 0.1}}));
  OptimizerState state = optimizer->start(layout);
  StateDict w = random_state(layout, 1);
  const StateDict gradient = random_state(layout, 2);
  const std::array ranges{Graph::Range{0, 64}};
  for (int step = 0; step < 200; ++step) {
    ASSERT_TRUE(optimizer->step(w, gradient, ranges, {.lr = 0.01}, state)) << step;
  }
}

}  // namespace
}  // namespace muster
