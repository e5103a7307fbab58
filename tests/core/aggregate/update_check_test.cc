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
    return check_update(*wanted_, {"device-03", *layout, values, examples}, {.max_examples = 1000});
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
  const auto status = check_update(*wanted_, {"a\nb", *wanted_, values_, 0}, {});
  EXPECT_THAT(status.error().message, Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace muster
