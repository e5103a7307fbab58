#include "core/train/settings.h"

#include <gmock/gmock.h>

namespace muster {
namespace {

TEST(LocalSettings, RoundTripWithEveryField) {
  const Json json{
      {"epochs", 3},
      {"max_steps", 7},
      {"max_seconds", 1.5},
      {"batch_size", 10},
      {"accumulate", 4},
      {"shuffle", false},
      {"clip_norm", 2.5},
      {"mu", 0.25},
      {"optimizer",
       {{"type", "adamw"},
        {"lr", 0.5},
        {"betas", {0.8, 0.9}},
        {"eps", 1e-5},
        {"weight_decay", 0.1}}},
      {"schedule",
       {{"type", "cosine"}, {"total_steps", 100}, {"min_lr", 0.1}, {"warmup_steps", 5}}}};
  const auto settings = local_settings_from_json(json, "local");
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(to_json(*settings), json);
  EXPECT_EQ(settings->max_seconds, 1.5);
  EXPECT_EQ(settings->accumulate, 4);
  EXPECT_EQ(settings->clip_norm, 2.5);
  EXPECT_EQ(settings->mu, 0.25);
  EXPECT_EQ(settings->optimizer.type(), "adamw");
  EXPECT_EQ(settings->schedule.warmup_steps, 5);
}

TEST(LocalSettings, DefaultsAreThoseOfTheHeader) {
  const auto settings = local_settings_from_json(Json::object(), "local");
  ASSERT_TRUE(settings);
  EXPECT_EQ(to_json(*settings), to_json(LocalSettings{}));
  EXPECT_EQ(settings->optimizer.type(), "sgd");
  EXPECT_EQ(settings->optimizer.lr, 0.01);
  EXPECT_EQ(settings->accumulate, 1);
  EXPECT_EQ(settings->clip_norm, 0);
}

TEST(LocalSettings, AMicroBatchIsTheBatchSharedOutRoundedUp) {
  const auto micro = [](std::int64_t batch, std::int64_t accumulate) {
    LocalSettings settings;
    settings.batch_size = batch;
    settings.accumulate = accumulate;
    return settings.micro_batch();
  };
  EXPECT_EQ(micro(10, 1), 10);
  EXPECT_EQ(micro(10, 2), 5);
  EXPECT_EQ(micro(10, 4), 3);
  EXPECT_EQ(micro(10, 10), 1);
}

TEST(LocalSettings, RefusesWhatIsOutOfRangeNamingTheField) {
  const std::vector<std::pair<Json, std::string>> cases{
      {{{"epochs", 0}}, "local.epochs"},
      {{{"epochs", 1.5}}, "local.epochs"},
      {{{"max_steps", -1}}, "local.max_steps"},
      {{{"max_seconds", -1}}, "local.max_seconds"},
      {{{"max_seconds", "1"}}, "local.max_seconds"},
      {{{"batch_size", 0}}, "local.batch_size"},
      {{{"accumulate", 0}}, "local.accumulate"},
      {{{"batch_size", 4}, {"accumulate", 5}}, "local.accumulate: 5 found"},
      {{{"shuffle", 1}}, "local.shuffle"},
      {{{"clip_norm", -1}}, "local.clip_norm"},
      {{{"clip_norm", nullptr}}, "local.clip_norm"},
      {{{"mu", -0.1}}, "local.mu"},
      {{{"epoch", 1}}, "epoch"},
      {{{"optimizer", {{"type", "adam"}, {"momentum", 0.9}}}}, "local.optimizer.momentum"},
      {{{"optimizer", {{"type", "sgd"}, {"lr", -1}}}}, "local.optimizer.lr"},
      {{{"optimizer", 3}}, "local.optimizer"},
      {{{"schedule", {{"type", "linear"}}}}, "local.schedule.type"},
      {{{"schedule", "cosine"}}, "local.schedule"},
      {{{"optimizer", {{"lr", 0.1}}}, {"schedule", {{"type", "cosine"}, {"min_lr", 0.2}}}},
       "local.schedule.min_lr"}};
  for (const auto& [json, field] : cases) {
    const auto settings = local_settings_from_json(json, "local");
    ASSERT_FALSE(settings) << json;
    EXPECT_EQ(settings.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(settings.error().message, testing::HasSubstr(field));
  }
}

}  // namespace
}  // namespace muster
