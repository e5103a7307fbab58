#include "core/round/round_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

const ClientSelection kAll;
const ClientSelection kHalf{ClientSelection::Method::kRandom, 0.5, {}};

Result<RoundSettings> read(const std::string& text, const ClientSelection& selection = kAll) {
  return round_settings_from_json(Json::parse(text), "job.round", 10, selection);
}

std::string refusal(const std::string& text, const ClientSelection& selection = kAll) {
  const auto settings = read(text, selection);
  EXPECT_FALSE(settings.has_value()) << text;
  return settings ? "" : settings.error().message;
}

TEST(RoundSettings, EmptyObjectGivesTheDocumentedDefaults) {
  const auto settings = read("{}");
  ASSERT_TRUE(settings.has_value()) << settings.error().message;
  EXPECT_EQ(to_json(*settings),
            Json::parse(R"({"target_updates": 10, "min_updates": 5, "over_selection": 1.0,
                            "selection_window_s": 60.0, "deadline_s": 600.0, "max_attempts": 3})"));
}

TEST(RoundSettings, TargetDefaultsToWhatTheSelectionAsksFor) {
  const auto target = [](ClientSelection::Method method, double fraction, std::int64_t pool) {
    return default_target_updates({method, fraction, {"gpu"}}, pool);
  };
  EXPECT_EQ(target(ClientSelection::Method::kAll, 1.0, 10), 10);
  EXPECT_EQ(target(ClientSelection::Method::kByCapability, 1.0, 10), 10);
  EXPECT_EQ(target(ClientSelection::Method::kRandom, 0.5, 10), 5);
  EXPECT_EQ(target(ClientSelection::Method::kRandom, 0.25, 10), 3);
  EXPECT_EQ(target(ClientSelection::Method::kRandom, 0.001, 10), 1);
  EXPECT_EQ(target(ClientSelection::Method::kRandom, 1.0, 1'000'000), 1'000'000);
}

TEST(RoundSettings, MinimumDefaultsToHalfOfTheTargetSoThatADeadDeviceDoesNotFailTheRound) {
  EXPECT_EQ(default_min_updates(1), 1);
  EXPECT_EQ(default_min_updates(2), 1);
  EXPECT_EQ(default_min_updates(5), 3);
  EXPECT_EQ(default_min_updates(10), 5);
  EXPECT_EQ(read(R"({"target_updates": 4})")->min_updates, 2);
}

TEST(RoundSettings, InvitesTheCeilingOfTargetTimesOverSelection) {
  const auto invited = [](std::int64_t target, double over) {
    RoundSettings settings;
    settings.target_updates = target;
    settings.over_selection = over;
    return devices_to_invite(settings);
  };
  EXPECT_EQ(invited(5, 1.0), 5);
  EXPECT_EQ(invited(5, 1.2), 6);
  EXPECT_EQ(invited(5, 1.21), 7);
  EXPECT_EQ(invited(10, 1.1), 11);  // 10 * 1.1 is 11.000000000000002 in binary
  EXPECT_EQ(invited(3, 10.0), 30);
}

TEST(RoundSettings, WhatIsWrittenReadsBackToTheSame) {
  const auto settings = read(
      R"({"target_updates": 5, "min_updates": 4, "over_selection": 1.2,
          "selection_window_s": 0.05, "deadline_s": 12.345, "max_attempts": 1000})",
      kHalf);
  ASSERT_TRUE(settings.has_value()) << settings.error().message;
  EXPECT_EQ(settings->selection_window, milliseconds(50));
  EXPECT_EQ(settings->deadline, milliseconds(12'345));
  const auto again = round_settings_from_json(to_json(*settings), "r", 10, kHalf);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(to_json(*again), to_json(*settings));
  EXPECT_EQ(again->deadline, settings->deadline);
}

// P-28
TEST(RoundSettings, P28_ContradictionsAreRefusedWithBothNumbers) {
  EXPECT_THAT(refusal(R"({"target_updates": 3, "min_updates": 4})"),
              AllOf(HasSubstr("job.round.min_updates"), HasSubstr("4"), HasSubstr("3")));
  EXPECT_THAT(refusal(R"({"target_updates": 11})"),
              AllOf(HasSubstr("job.round.target_updates"), HasSubstr("11"), HasSubstr("10")));
  EXPECT_THAT(refusal(R"({"target_updates": 6})", kHalf), HasSubstr("at most 5"));
  EXPECT_THAT(refusal(R"({"min_updates": 6})", kHalf), HasSubstr("target_updates"));
}

TEST(RoundSettings, EachFieldRefusesWhatIsOutOfItsRange) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> bad = {
      {"target_updates", {"0", "-1", "1.5", "\"5\"", "1000001", "null"}},
      {"min_updates", {"0", "-1", "2.5", "null"}},
      {"over_selection", {"0.99", "10.01", "-1", "\"1\"", "null"}},
      {"selection_window_s", {"0", "0.049", "86401", "-5", "null"}},
      {"deadline_s", {"0", "0.049", "604801", "-5", "null"}},
      {"max_attempts", {"0", "1001", "-1", "1.5", "null"}}};
  for (const auto& [field, values] : bad) {
    for (const auto& value : values) {
      EXPECT_THAT(refusal("{\"" + field + "\": " + value + "}"), HasSubstr("job.round." + field));
    }
  }
}

TEST(RoundSettings, LimitsThemselvesAreTaken) {
  for (const char* text :
       {R"({"target_updates": 1, "min_updates": 1})",
        R"({"target_updates": 10, "min_updates": 10})",
        R"({"over_selection": 10, "selection_window_s": 86400, "deadline_s": 604800})",
        R"({"deadline_s": 0.05, "max_attempts": 1})"}) {
    const auto settings = read(text);
    EXPECT_TRUE(settings.has_value()) << settings.error().message;
  }
}

TEST(RoundSettings, TheRuleRaisesTheDefaultOfMinUpdatesAndRefusesLess) {
  const AggregationNeeds needs{"Krum(f=2)", 7, 0};
  const auto with = [&](const char* text) {
    return round_settings_from_json(Json::parse(text), "job.round", 10, kAll, needs);
  };
  EXPECT_EQ(with("{}")->min_updates, 7);
  EXPECT_EQ(with(R"({"min_updates": 9})")->min_updates, 9);
  EXPECT_THAT(with(R"({"min_updates": 6})").error().message,
              AllOf(HasSubstr("job.round.min_updates"), HasSubstr("Krum(f=2)"), HasSubstr("7")));
  EXPECT_THAT(with(R"({"target_updates": 6})").error().message,
              AllOf(HasSubstr("job.round.target_updates"), HasSubstr("7")));
}

TEST(RoundSettings, ABufferIsTheTargetOfAsynchronousRounds) {
  const auto with = [&](const char* text, std::int64_t size) {
    return round_settings_from_json(Json::parse(text), "job.round", 10, kAll, {"FedBuff", 1, size});
  };
  const auto settings = with("{}", 10);
  ASSERT_TRUE(settings.has_value()) << settings.error().message;
  EXPECT_TRUE(settings->asynchronous);
  EXPECT_EQ(settings->target_updates, 10);
  EXPECT_EQ(settings->min_updates, 5);
  EXPECT_FALSE(read("{}")->asynchronous);
  EXPECT_THAT(with("{}", 11).error().message, HasSubstr("num_clients"));
  EXPECT_THAT(with(R"({"target_updates": 4})", 5).error().message,
              AllOf(HasSubstr("job.round.target_updates"), HasSubstr("4"), HasSubstr("5")));
  EXPECT_THAT(with(R"({"over_selection": 1.1})", 5).error().message,
              HasSubstr("job.round.over_selection"));
}

TEST(RoundSettings, UnknownFieldIsRefused) {
  EXPECT_THAT(refusal(R"({"deadline": 5})"), AllOf(HasSubstr("deadline"), HasSubstr("deadline_s")));
}

}  // namespace
}  // namespace muster
