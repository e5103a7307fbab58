#include "core/train/schedule.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

namespace muster {
namespace {

ScheduleSettings settings_of(const Json& json) {
  auto settings = schedule_settings_from_json(json, "schedule");
  EXPECT_TRUE(settings) << settings.error().message;
  return *settings;
}

std::vector<double> rates(const Json& json, double lr, std::int64_t steps) {
  const ScheduleSettings settings = settings_of(json);
  std::vector<double> rates;
  for (std::int64_t s = 0; s < steps; ++s) rates.push_back(learning_rate(settings, lr, s, steps));
  return rates;
}

using testing::DoubleNear;
using testing::ElementsAre;

auto near(double value) {
  return DoubleNear(value, 1e-15);
}

TEST(Schedule, ConstantIsTheRateItself) {
  EXPECT_THAT(rates({{"type", "constant"}}, 0.1, 3), ElementsAre(0.1, 0.1, 0.1));
  EXPECT_THAT(rates(Json::object(), 0.1, 2), ElementsAre(0.1, 0.1));
}

TEST(Schedule, StepMultipliesAfterEveryStepSize) {
  EXPECT_THAT(rates({{"type", "step"}, {"step_size", 2}, {"gamma", 0.5}}, 0.8, 6),
              ElementsAre(0.8, 0.8, 0.4, 0.4, 0.2, 0.2));
}

TEST(Schedule, CosineFallsFromTheRateToTheLeastOne) {
  const double root = std::sqrt(0.5);
  EXPECT_THAT(rates({{"type", "cosine"}, {"min_lr", 0.2}}, 1.0, 4),
              ElementsAre(near(1.0), near(0.2 + 0.4 * (1 + root)), near(0.6),
                          near(0.2 + 0.4 * (1 - root))));
}

TEST(Schedule, CosineOfItsOwnLengthStaysAtTheLeastRate) {
  EXPECT_THAT(rates({{"type", "cosine"}, {"total_steps", 2}, {"min_lr", 0.1}}, 1.0, 5),
              ElementsAre(near(1.0), near(0.55), near(0.1), near(0.1), near(0.1)));
}

TEST(Schedule, WarmUpRisesToTheRateAndTheScheduleBeginsAfterIt) {
  EXPECT_THAT(rates({{"warmup_steps", 4}}, 0.4, 6),
              ElementsAre(near(0.1), near(0.2), near(0.3), near(0.4), near(0.4), near(0.4)));
  EXPECT_THAT(
      rates({{"type", "step"}, {"step_size", 2}, {"gamma", 0.1}, {"warmup_steps", 2}}, 1.0, 6),
      ElementsAre(near(0.5), near(1.0), near(1.0), near(1.0), near(0.1), near(0.1)));
  EXPECT_THAT(rates({{"type", "cosine"}, {"warmup_steps", 2}}, 1.0, 4),
              ElementsAre(near(0.5), near(1.0), near(1.0), near(0.5)));
}

TEST(Schedule, AFitNoLongerThanTheWarmUpOnlyRises) {
  EXPECT_THAT(rates({{"type", "cosine"}, {"warmup_steps", 4}}, 1.0, 3),
              ElementsAre(near(0.25), near(0.5), near(0.75)));
}

TEST(ScheduleSettings, ReadBackWithEveryDefaultWrittenOut) {
  EXPECT_EQ(to_json(settings_of(Json::object())),
            Json({{"type", "constant"}, {"warmup_steps", 0}}));
  EXPECT_EQ(to_json(settings_of({{"type", "step"}, {"step_size", 5}})),
            Json({{"type", "step"}, {"step_size", 5}, {"gamma", 0.1}, {"warmup_steps", 0}}));
  EXPECT_EQ(to_json(settings_of({{"type", "cosine"}, {"warmup_steps", 100}})),
            Json({{"type", "cosine"}, {"total_steps", 0}, {"min_lr", 0.0}, {"warmup_steps", 100}}));
  const Json whole{{"type", "cosine"}, {"total_steps", 9}, {"min_lr", 0.5}, {"warmup_steps", 2}};
  EXPECT_EQ(to_json(settings_of(whole)), whole);
}

TEST(ScheduleSettings, RefusesWhatIsOutOfRangeOrBelongsToAnotherType) {
  const std::vector<std::pair<Json, std::string>> cases{
      {{{"type", "exponential"}}, "schedule.type: unknown \"exponential\""},
      {{{"type", 1}}, "schedule.type"},
      {"cosine", "schedule"},
      {{{"warmup_steps", -1}}, "schedule.warmup_steps"},
      {{{"warmup_steps", 1.5}}, "schedule.warmup_steps"},
      {{{"gamma", 0.1}}, "schedule.gamma: unknown field"},
      {{{"type", "step"}}, "schedule.step_size: the field is missing"},
      {{{"type", "step"}, {"step_size", 0}}, "schedule.step_size"},
      {{{"type", "step"}, {"step_size", 1}, {"gamma", 1.1}}, "schedule.gamma"},
      {{{"type", "step"}, {"step_size", 1}, {"min_lr", 0}}, "schedule.min_lr: unknown field"},
      {{{"type", "cosine"}, {"total_steps", -1}}, "schedule.total_steps"},
      {{{"type", "cosine"}, {"min_lr", -1}}, "schedule.min_lr"},
      {{{"type", "cosine"}, {"total_steps", 5}, {"warmup_steps", 5}}, "schedule.total_steps"},
      {{{"type", "cosine"}, {"step_size", 5}}, "schedule.step_size: unknown field"}};
  for (const auto& [json, message] : cases) {
    const auto settings = schedule_settings_from_json(json, "schedule");
    ASSERT_FALSE(settings) << json;
    EXPECT_THAT(settings.error().message, testing::HasSubstr(message));
  }
}

}  // namespace
}  // namespace muster
