#include "core/aggregate/update_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace muster {
namespace {

using ::testing::HasSubstr;

class CheckUpdate : public ::testing::Test {
 protected:
  Status check(const LayoutPtr& layout, std::span<const float> values, std::int64_t examples) {
    return check_update(
        StateDict(wanted_), UpdateContent::kState,
        {.contributor = "device-03", .values = view_of(*layout, values), .examples = examples},
        {.max_examples = 1000});
  }

  void expect_refused(const Status& status, std::string_view reason, const std::string& words) {
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(status.error().reason, reason);
    EXPECT_THAT(status.error().message, AllOf(HasSubstr("device-03"), HasSubstr(words)));
  }

  const LayoutPtr wanted_ = *StateLayout::create({{"a", {2}}, {"b", {2, 2}}});
  std::vector<float> values_ = {1, 2, 3, 4, 5, 6};
};

TEST_F(CheckUpdate, TakesOneExampleUpToTheCap) {
  EXPECT_TRUE(check(wanted_, values_, 1).has_value());
  EXPECT_TRUE(check(wanted_, values_, 1000).has_value());
}

TEST_F(CheckUpdate, N05_RefusesZeroExamples) {
  expect_refused(check(wanted_, values_, 0), "zero_examples", "0");
}

TEST_F(CheckUpdate, N08_RefusesExamplesOverTheCapOrNegative) {
  expect_refused(check(wanted_, values_, 1001), "bad_examples", "1001");
  expect_refused(check(wanted_, values_, -1), "bad_examples", "-1");
  expect_refused(check(wanted_, values_, std::numeric_limits<std::int64_t>::min()), "bad_examples",
                 "1000");
}

TEST_F(CheckUpdate, N01_RefusesWhatIsNotFiniteNamingTensorAndIndex) {
  values_[4] = std::numeric_limits<float>::quiet_NaN();
  expect_refused(check(wanted_, values_, 5), "non_finite", "b");
  EXPECT_THAT(check(wanted_, values_, 5).error().message, HasSubstr("2"));
  values_[4] = std::numeric_limits<float>::infinity();
  expect_refused(check(wanted_, values_, 5), "non_finite", "b");
}

TEST_F(CheckUpdate, C09_RefusesMissingExtraAndRenamedTensors) {
  const auto layout = [](std::vector<StateLayout::Entry> entries) {
    return *StateLayout::create(std::move(entries));
  };
  expect_refused(check(layout({{"a", {2}}}), values_, 5), "missing_tensor", "b");
  expect_refused(check(layout({{"a", {2}}, {"b", {2, 2}}, {"c", {0}}}), values_, 5), "extra_tensor",
                 "c");
  const auto renamed = check(layout({{"a", {2}}, {"x", {2, 2}}}), values_, 5);
  ASSERT_FALSE(renamed.has_value());
  EXPECT_THAT(renamed.error().reason, testing::AnyOf("missing_tensor", "extra_tensor"));
}

TEST_F(CheckUpdate, C10_RefusesAnotherShapeOfTheSameSize) {
  const LayoutPtr flat = *StateLayout::create({{"a", {2}}, {"b", {4}}});
  expect_refused(check(flat, values_, 5), "shape_mismatch", "[4]");
}

TEST_F(CheckUpdate, RefusesFewerValuesThanItsLayoutSays) {
  values_.pop_back();
  expect_refused(check(wanted_, values_, 5), "shape_mismatch", "5 values");
}

TEST_F(CheckUpdate, ShowsAHostileContributorNameSafely) {
  const auto status =
      check_update(StateDict(wanted_), UpdateContent::kState,
                   {.contributor = "a\nb", .values = view_of(*wanted_, values_)}, {});
  EXPECT_THAT(status.error().message, Not(HasSubstr("\n")));
}

TEST_F(CheckUpdate, RefusesAChangeOverTheBoundNamingNormAndLimit) {
  StateDict global(wanted_);
  for (std::size_t i = 0; i < 6; ++i) global.values()[i] = values_[i] - (i < 2 ? 3.0F : 0.0F);
  values_[1] += 1;  // the change is (3, 4, 0, 0, 0, 0)
  const auto check_bound = [&](UpdateContent content, const std::vector<float>& values,
                               double bound) {
    return check_update(
        global, content,
        {.contributor = "device-03", .values = view_of(*wanted_, values), .examples = 1},
        {.max_change_norm = bound});
  };
  EXPECT_TRUE(check_bound(UpdateContent::kState, values_, 5).has_value());
  expect_refused(check_bound(UpdateContent::kState, values_, 4.99), "norm_too_large", "4.99");
  EXPECT_THAT(check_bound(UpdateContent::kState, values_, 4.99).error().message,
              HasSubstr("norm 5"));
  const std::vector<float> delta = {0, 0, 6, 8, 0, 0};
  EXPECT_TRUE(check_bound(UpdateContent::kDelta, delta, 10).has_value());
  expect_refused(check_bound(UpdateContent::kDelta, delta, 9), "norm_too_large", "10");
  // A value that is not finite is told as such.
  values_[5] = std::numeric_limits<float>::quiet_NaN();
  expect_refused(check_bound(UpdateContent::kState, values_, 1e30), "non_finite", "index 3");
}

TEST_F(CheckUpdate, FindsWhatIsNotFiniteInAnyPartOfALargeUpdate) {
  const LayoutPtr layout = *StateLayout::create({{"a", {100'000}}, {"b", {100'001}}});
  const StateDict global(layout);
  for (const std::size_t at : {0, 65'535, 65'536, 99'999, 100'000, 131'072, 200'000}) {
    std::vector<float> values(200'001, 0.5F);
    values[at] = -std::numeric_limits<float>::infinity();
    const auto status = check_update(
        global, UpdateContent::kState,
        {.contributor = "device-03", .values = view_of(*layout, values), .examples = 1}, {});
    const std::string place =
        at < 100'000 ? "\"a\" has the value -inf at index " : "\"b\" has the value -inf at index ";
    expect_refused(status, "non_finite",
                   place + std::to_string(at % 100'000 + (at == 200'000 ? 100'000 : 0)));
  }
}

TEST(UpdateLimits, RoundTripAndRefuseWhatIsOutOfRange) {
  const Json json{{"max_examples", 500}, {"max_change_norm", 2.5}};
  EXPECT_EQ(to_json(*update_limits_from_json(json, "checks")), json);
  EXPECT_EQ(update_limits_from_json(Json::object(), "checks")->max_examples, 10'000'000);
  for (const Json& bad : {Json{{"max_examples", 0}}, Json{{"max_examples", -1}},
                          Json{{"max_examples", 9007199254740993}}, Json{{"max_change_norm", -1}},
                          Json{{"max_change_norm", 1e31}}, Json{{"max_norm", 1}}}) {
    const auto limits = update_limits_from_json(bad, "checks");
    ASSERT_FALSE(limits.has_value()) << bad;
    EXPECT_THAT(limits.error().message, HasSubstr("checks." + bad.begin().key()));
  }
}

}  // namespace
}  // namespace muster
