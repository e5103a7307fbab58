#include "core/aggregate/json_mean.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/random.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Part {
  Json state;
  std::int64_t examples = 1;
};

Json mean_of(const std::vector<Part>& parts) {
  JsonMean mean;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto status =
        mean.accumulate("node-" + std::to_string(i), parts[i].state, parts[i].examples);
    EXPECT_TRUE(status.has_value()) << status.error().message;
  }
  const auto result = mean.finish();
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result.value_or(Json());
}

TEST(JsonMean, AveragesNumbersLeafByLeafWeightedByExamples) {
  const Json a = {{"mean", {1.0, -2.0}}, {"nested", {{"scale", 4.0}}}, {"kind", "standard"}};
  const Json b = {{"mean", {2.0, 2.0}}, {"nested", {{"scale", 8.0}}}, {"kind", "standard"}};
  EXPECT_EQ(mean_of({{a, 1}, {b, 3}}),
            (Json{{"mean", {1.75, 1.0}}, {"nested", {{"scale", 7.0}}}, {"kind", "standard"}}));
}

TEST(JsonMean, KeepsIntegersWhereAllAgree) {
  const Json mean = mean_of({{{{"k", 8}, {"n", 3}}, 2}, {{{"k", 8}, {"n", 4}}, 2}});
  EXPECT_TRUE(mean.at("k").is_number_integer());
  EXPECT_EQ(mean.at("k"), 8);
  EXPECT_TRUE(mean.at("n").is_number_float());
  EXPECT_EQ(mean.at("n"), 3.5);
  // Whoever has no examples has no say.
  EXPECT_EQ(mean_of({{{{"n", 3}}, 2}, {{{"n", 4}}, 0}}), (Json{{"n", 3}}));
}

TEST(JsonMean, OfOneContributorIsTheIdentity) {
  const Json state = {{"lowest", std::numeric_limits<std::int64_t>::min()},
                      {"largest", std::numeric_limits<std::uint64_t>::max()},
                      {"zero", -0.0},
                      {"tiny", std::numeric_limits<double>::denorm_min()},
                      {"huge", std::numeric_limits<double>::max()},
                      {"third", 1.0 / 3},
                      {"none", nullptr},
                      {"yes", true},
                      {"empty", Json::array()},
                      {"object", Json::object()}};
  const Json mean = mean_of({{state, 7}});
  EXPECT_EQ(mean.dump(), state.dump());
  EXPECT_EQ(mean_of({{42}}).dump(), "42");
}

// Against exact integers: numbers are whole multiples of 2^-30.
TEST(JsonMean, IsTheDoubleNearestToTheExactMean) {
  __extension__ using Wide = __int128;
  Random random(5);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Part> parts(2 + random.below(5));
    Wide sum = 0;
    Wide total = 0;
    for (Part& part : parts) {
      const auto whole =
          static_cast<std::int64_t>(random.below(std::uint64_t{1} << 53)) - (std::int64_t{1} << 52);
      part.state = std::ldexp(static_cast<double>(whole), -30);
      part.examples = static_cast<std::int64_t>(1 + random.below(1000));
      sum += static_cast<Wide>(whole) * part.examples;
      total += part.examples;
    }
    const auto mean = mean_of(parts).get<double>();
    // |mean * total - sum| in units of 2^-60.
    const auto off = [&](double value) {
      const Wide scaled = static_cast<Wide>(std::ldexp(value, 60));
      const Wide difference = scaled * total - (sum << 30);
      return difference < 0 ? -difference : difference;
    };
    const double infinity = std::numeric_limits<double>::infinity();
    ASSERT_LE(off(mean), off(std::nextafter(mean, infinity)));
    ASSERT_LE(off(mean), off(std::nextafter(mean, -infinity)));
  }
}

TEST(JsonMean, TakesTheLargestAndCancelsExactly) {
  const double largest = std::numeric_limits<double>::max();
  const std::int64_t many = std::int64_t{1} << 51;
  EXPECT_EQ(mean_of({{largest, many}, {largest, many - 1}, {std::nextafter(largest, 0.0), 1}}),
            Json(largest));
  EXPECT_EQ(mean_of({{1e300, 3}, {-1e300, 3}, {1e-300, 2}}), Json(1e-300 / 4));
  EXPECT_EQ(mean_of({{1.0, 1}, {-1.0, 1}}), Json(0.0));
  // Integers that no double holds: the mean of 2^53 + 1 and 2^53 + 3 is 2^53 + 2.
  EXPECT_EQ(mean_of({{9007199254740993, 1}, {9007199254740995, 1}}), Json(9007199254740994.0));
  const double tiny = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(mean_of({{tiny, 1}, {0.0, 1}}), Json(0.0));  // half of it: ties to even
  EXPECT_EQ(mean_of({{tiny * 3, 1}, {0.0, 1}}), Json(tiny * 2));
}

TEST(JsonMean, IsTheSameInAnyOrder) {
  Random random(6);
  std::vector<std::pair<std::string, Part>> parts;
  for (int i = 0; i < 9; ++i) {
    Json values = Json::array();
    for (int k = 0; k < 20; ++k) {
      values.push_back(std::ldexp(random.normal(), static_cast<int>(random.below(400)) - 200));
    }
    parts.emplace_back("node-" + std::to_string(i),
                       Part{{{"centres", values}}, static_cast<std::int64_t>(random.below(100))});
  }
  std::string wanted;
  for (int i = 0; i < 200; ++i) {
    random.shuffle(parts);
    JsonMean mean;
    for (const auto& [name, part] : parts) {
      ASSERT_TRUE(mean.accumulate(name, part.state, part.examples).has_value());
    }
    const std::string got = mean.finish()->dump();
    if (i == 0) wanted = got;
    ASSERT_EQ(got, wanted);
  }
}

class JsonMeanRefuses : public ::testing::Test {
 protected:
  void expect_refused(const Json& state, std::string_view reason, const std::string& place,
                      std::int64_t examples = 1) {
    JsonMean mean;
    ASSERT_TRUE(mean.accumulate("node-1", first_, 1).has_value());
    const auto status = mean.accumulate("node-2", state, examples);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(status.error().reason, reason);
    EXPECT_THAT(status.error().message, AllOf(HasSubstr("node-2"), HasSubstr(place)));
    EXPECT_EQ(mean.num_contributors(), 1);
    EXPECT_EQ(*mean.finish(), first_);
  }

  const Json first_ = {{"a/b", {1, 2.5, {{"x~y", "text"}}}}, {"n", nullptr}};
};

TEST_F(JsonMeanRefuses, WhatDoesNotFitNamingContributorAndPlace) {
  Json other = first_;
  other.erase("n");
  expect_refused(other, "missing_key", "/n");
  other = first_;
  other["more"] = 1;
  expect_refused(other, "extra_key", "/more");
  other = first_;
  other["a/b"].push_back(1);
  expect_refused(other, "length_mismatch", "/a~1b");
  other = first_;
  other["a/b"][2]["x~y"] = "other";
  expect_refused(other, "value_mismatch", "/a~1b/2/x~0y");
  other = first_;
  other["a/b"][1] = "2.5";
  expect_refused(other, "type_mismatch", "/a~1b/1");
  other = first_;
  other["n"] = 0;
  expect_refused(other, "type_mismatch", "/n");
  expect_refused(Json::array(), "type_mismatch", "\"\"");
}

TEST_F(JsonMeanRefuses, NumbersThatAreNotFiniteAlsoInTheFirst) {
  Json other = first_;
  other["a/b"][0] = std::numeric_limits<double>::quiet_NaN();
  expect_refused(other, "non_finite", "/a~1b/0");
  JsonMean mean;
  EXPECT_EQ(mean.accumulate("node-1", other, 1).error().reason, "non_finite");
}

TEST_F(JsonMeanRefuses, CountsOutOfRange) {
  expect_refused(first_, "bad_examples", "-9", -9);
  expect_refused(first_, "bad_examples", "9007199254740992", std::int64_t{1} << 53);  // with one
  expect_refused(first_, "bad_examples", "9223372036854775807",
                 std::numeric_limits<std::int64_t>::max());
}

TEST_F(JsonMeanRefuses, WhatIsTooDeep) {
  Json deep = 1;
  for (int i = 0; i < 64; ++i) deep = Json::array({deep});
  JsonMean mean;
  EXPECT_TRUE(mean.accumulate("node-1", deep, 1).has_value());
  JsonMean other;
  EXPECT_EQ(other.accumulate("node-1", Json::array({deep}), 1).error().reason, "too_deep");
}

TEST_F(JsonMeanRefuses, TheSameContributorTwiceAndAnythingAfterTheEnd) {
  JsonMean mean;
  EXPECT_EQ(mean.finish().error().reason, "no_contributors");
  ASSERT_TRUE(mean.accumulate("node-1", first_, 0).has_value());
  EXPECT_EQ(mean.finish().error().reason, "no_contributors");
  EXPECT_EQ(mean.accumulate("node-1", first_, 1).error().reason, "already_contributed");
  ASSERT_TRUE(mean.accumulate("node-2", first_, 1).has_value());
  ASSERT_TRUE(mean.finish().has_value());
  EXPECT_EQ(mean.finish().error().reason, "finished");
  EXPECT_EQ(mean.accumulate("node-3", first_, 1).error().reason, "finished");
}

}  // namespace
}  // namespace muster
