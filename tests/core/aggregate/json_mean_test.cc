#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/aggregate/aggregator.h"
#include "core/base/random.h"
#include "core/tensor/json_state.h"

// What JsonMean makes of JSON states; what it shares with every rule is in the conformance suite.
namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kTiny = std::numeric_limits<double>::denorm_min();
constexpr double kLargest = std::numeric_limits<double>::max();

struct Part {
  Json state;
  std::int64_t examples = 1;
};

// A round of JSON states, their structure that of the first.
class Round {
 public:
  explicit Round(const Json& state)
      : template_(*JsonTemplate::create(state)),
        global_(*template_.pack(state)),
        aggregator_(*make_aggregator(JsonMean{}, {.global = &global_})) {}

  Status add(const std::string& name, const Json& state, std::int64_t examples) {
    MUSTER_TRY(StateDict packed, template_.pack(state));
    return add(name, std::move(packed), examples);
  }
  Status add(const std::string& name, StateDict packed, std::int64_t examples) {
    return aggregator_->accumulate(
        {.contributor = name, .values = values_of(std::move(packed)), .examples = examples});
  }
  Result<Json> finish() {
    MUSTER_TRY(const Outcome outcome, aggregator_->finish());
    return template_.unpack(outcome.global);
  }
  StateDict packed(const Json& state) const { return *template_.pack(state); }

 private:
  JsonTemplate template_;
  StateDict global_;
  std::unique_ptr<Aggregator> aggregator_;
};

Json mean_of(const std::vector<Part>& parts) {
  Round round(parts.front().state);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto status = round.add("node-" + std::to_string(i), parts[i].state, parts[i].examples);
    EXPECT_TRUE(status.has_value()) << status.error().message;
  }
  const auto result = round.finish();
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result.value_or(Json());
}

TEST(JsonMean, AveragesNumbersLeafByLeafWeightedByExamples) {
  const Json a = {{"mean", {1.0, -2.0}}, {"nested", {{"scale", 4.0}}}, {"kind", "standard"}};
  const Json b = {{"mean", {2.0, 2.0}}, {"nested", {{"scale", 8.0}}}, {"kind", "standard"}};
  EXPECT_EQ(mean_of({{a, 1}, {b, 3}}),
            (Json{{"mean", {1.75, 1.0}}, {"nested", {{"scale", 7.0}}}, {"kind", "standard"}}));
}

TEST(JsonMean, KeepsIntegersWhereTheMeanIsOne) {
  const Json mean = mean_of({{{{"k", 8}, {"n", 3}}, 2}, {{{"k", 8}, {"n", 4}}, 2}});
  EXPECT_EQ(mean.dump(), R"({"k":8,"n":3.5})");
  // Whoever has no examples has no say.
  EXPECT_EQ(mean_of({{{{"n", 3}}, 2}, {{{"n", 4}}, 0}}), (Json{{"n", 3}}));
}

TEST(JsonMean, OfOneContributorOrOfEqualOnesIsTheIdentity) {
  const Json state = {{"zero", -0.0},     {"tiny", kTiny},   {"huge", kLargest},
                      {"third", 1.0 / 3}, {"none", nullptr}, {"empty", Json::array()}};
  EXPECT_EQ(mean_of({{state, 7}}).dump(), state.dump());
  EXPECT_EQ(mean_of({{state, 7}, {state, 900}, {state, 1}}).dump(), state.dump());
  EXPECT_EQ(mean_of({{42}}).dump(), "42");
  EXPECT_EQ(mean_of({{-0.0, 1}, {0.0, 1}}).dump(), "0.0");
  EXPECT_EQ(mean_of({{"no number"}}).dump(), "\"no number\"");
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
  const std::int64_t many = std::int64_t{1} << 53;
  EXPECT_EQ(mean_of({{kLargest, many}, {kLargest, many}, {std::nextafter(kLargest, 0.0), 1}}),
            Json(kLargest));
  EXPECT_EQ(mean_of({{kLargest, many}, {-kLargest, many}, {1.0, many}, {kTiny, many}}), Json(0.25));
  EXPECT_EQ(mean_of({{1e300, 3}, {-1e300, 3}, {1e-300, 2}}), Json(1e-300 / 4));
  EXPECT_EQ(mean_of({{1.0, 1}, {-1.0, 1}}), Json(0.0));
  EXPECT_EQ(mean_of({{kTiny, 1}, {0.0, 1}}), Json(0.0));  // half of it: ties to even
  EXPECT_EQ(mean_of({{kTiny * 3, 1}, {0.0, 1}}), Json(kTiny * 2));
  EXPECT_EQ(mean_of({{-kTiny, 3}, {0.0, 1}}), Json(-kTiny));
}

TEST(JsonMean, RefusesWordsOfNoDoubleAndDoublesThatAreNotFinite) {
  const Json state = {{"centres", {1.0, 2.0, 3.0}}};
  const auto refusal = [&](std::size_t at, NumberWords words, bool known_finite) {
    Round round(state);
    StateDict packed = round.packed(state);
    std::ranges::copy(words, packed.values().begin() + static_cast<std::ptrdiff_t>(3 * at));
    EXPECT_TRUE(round.add("node-1", state, 1).has_value());
    const StateDict& global = packed;
    const auto aggregator = *make_aggregator(JsonMean{}, {.global = &global});
    const Status status = aggregator->validate({.contributor = "node-2",
                                                .values = view_of(packed),
                                                .examples = 1,
                                                .known_finite = known_finite});
    EXPECT_FALSE(status.has_value());
    EXPECT_EQ(round.add("node-2", std::move(packed), 1).error().message, status.error().message);
    EXPECT_EQ(*round.finish(), state);
    EXPECT_THAT(status.error().message,
                AllOf(HasSubstr("node-2"), HasSubstr("number " + std::to_string(at))));
    return status.error().reason;
  };
  // Also where the floats are known to be finite: that says nothing of the doubles.
  for (const bool known_finite : {false, true}) {
    EXPECT_EQ(refusal(2, {0.5F, 0, 0}, known_finite), "bad_number");
    EXPECT_EQ(refusal(0, {-0.0F, 0, 0}, known_finite), "bad_number");
    EXPECT_EQ(refusal(1, words_of(std::nan("")), known_finite), "non_finite");
    EXPECT_EQ(refusal(1, words_of(-std::numeric_limits<double>::infinity()), known_finite),
              "non_finite");
  }
}

TEST(JsonMean, TakesJsonStatesOnlyAndWhole) {
  const StateDict tensors(*StateLayout::create({{"w", {2, 3}}}));
  const auto refused = make_aggregator(JsonMean{}, {.global = &tensors});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().reason, "bad_aggregation");
  const JsonTemplate made = *JsonTemplate::create({1.0});
  const StateDict global = *made.pack({1.0});
  EXPECT_EQ(make_aggregator(JsonMean{}, {.global = &global, .content = UpdateContent::kDelta})
                .error()
                .reason,
            "bad_aggregation");
}

TEST(JsonMean, OfAStateOfAnotherLengthIsRefused) {
  Round round(Json{1.0, 2.0});
  const JsonTemplate longer = *JsonTemplate::create({1.0, 2.0, 3.0});
  EXPECT_EQ(round.add("node-1", *longer.pack(longer.json()), 1).error().reason, "shape_mismatch");
}

}  // namespace
}  // namespace muster
