#include "core/protocol/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace muster::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Json many(int count) {
  Json json = Json::object();
  for (int i = 0; i < count; ++i) json[std::to_string(i)] = i;
  return json;
}

// N-14
TEST(ReceivedMetrics, N14_ValuesThatSayNothingAreDroppedAndNamedNotAveraged) {
  const Json json = {{"accuracy", 2.0}, {"infinite", std::numeric_limits<double>::infinity()},
                     {"loss", 0.5},     {"nan", std::numeric_limits<double>::quiet_NaN()},
                     {"null", nullptr}, {"whole", 3}};
  const auto metrics = metrics_from_json(json, "metrics");
  ASSERT_TRUE(metrics.has_value()) << metrics.error().message;
  EXPECT_THAT(metrics->kept, ElementsAre(Pair("loss", 0.5), Pair("whole", 3.0)));
  EXPECT_THAT(metrics->dropped, ElementsAre("accuracy", "infinite", "nan", "null"));
}

TEST(ReceivedMetrics, AccuracyIsKeptFromZeroToOne) {
  for (const double accuracy : {0.0, 0.5, 1.0}) {
    EXPECT_EQ(metrics_from_json({{"accuracy", accuracy}}, "m")->kept.at("accuracy"), accuracy);
  }
  for (const double accuracy : {-1.0, -1e-9, 1.0000001, 2.0}) {
    EXPECT_TRUE(metrics_from_json({{"accuracy", accuracy}}, "m")->kept.empty());
  }
}

TEST(ReceivedMetrics, UpTo64AreTaken) {
  EXPECT_EQ(metrics_from_json(many(64), "m")->kept.size(), 64U);
  const auto metrics = metrics_from_json(many(65), "m");
  ASSERT_FALSE(metrics.has_value());
  EXPECT_THAT(metrics.error().message, AllOf(HasSubstr("65"), HasSubstr("64")));
  EXPECT_TRUE(metrics_from_json(Json::object(), "m")->kept.empty());
}

TEST(ReceivedMetrics, HostileNamesAreRefusedAndShownSafely) {
  for (const char* name : {"", "a b", "../x", "<img>", "a\nb"}) {
    const auto metrics = metrics_from_json({{name, 1.0}}, "m");
    ASSERT_FALSE(metrics.has_value()) << name;
    EXPECT_EQ(metrics.error().reason, "bad_field");
    EXPECT_THAT(metrics.error().message, Not(HasSubstr("\n")));
  }
}

TEST(ReceivedMetrics, OnlyFiniteValuesAreWritten) {
  const Metrics metrics = {{"loss", 0.5}, {"nan", std::numeric_limits<double>::quiet_NaN()}};
  EXPECT_EQ(to_json(metrics), Json({{"loss", 0.5}}));
  EXPECT_TRUE(to_json(Metrics{}).is_object());
}

}  // namespace
}  // namespace muster::protocol
