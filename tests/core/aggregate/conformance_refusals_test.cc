#include <limits>

#include "core/aggregate/settings.h"
#include "tests/core/aggregate/conformance.h"

// What every rule refuses, and that nothing has changed then.
namespace muster::aggregating {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class EveryRuleRefuses : public RuleTest {
 protected:
  // A refused contribution leaves what would be saved as it was.
  void expect_refused(const Contribution& bad, std::string_view reason, const std::string& words,
                      ErrorCode code = ErrorCode::kInvalidArgument) {
    const auto clean = aggregator(settings(), base());
    const auto made = aggregator(settings(), base());
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(clean->accumulate(contribution(all_[i])).has_value());
      ASSERT_TRUE(made->accumulate(contribution(all_[i])).has_value());
    }
    const Status verdict = made->validate(bad);
    const Status status = made->accumulate(bad);
    ASSERT_FALSE(verdict.has_value());
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().message, verdict.error().message);
    EXPECT_EQ(status.error().code, code);
    EXPECT_EQ(status.error().reason, reason);
    EXPECT_THAT(status.error().message, AllOf(HasSubstr(bad.contributor), HasSubstr(words)));
    EXPECT_EQ(made->num_contributors(), 3);
    EXPECT_EQ(saved_bytes(*made), saved_bytes(*clean));
  }

  Contribution fourth() const { return contribution(all_[3]); }

  const std::vector<Device> all_ = devices(layout_, 11, -12, 12);
};

TEST_P(EveryRuleRefuses, N01_AValueThatIsNotFinite) {
  for (const float value :
       {kNan, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    StateDict state = all_[3].state.clone();
    state.tensor(large_tensor())[34] = value;
    Contribution bad = fourth();
    bad.values = view_of(state);
    expect_refused(bad, "non_finite", large_tensor());
    EXPECT_THAT(aggregator(settings(), base())->accumulate(bad).error().message, HasSubstr("34"));
  }
}

TEST_P(EveryRuleRefuses, C09_OtherTensorsAndShapes) {
  if (GetParam().of_json) GTEST_SKIP() << "has one tensor: json_mean_test.cc";
  const auto refused = [&](std::vector<StateLayout::Entry> entries, std::string_view reason,
                           const std::string& words) {
    const StateDict state(*StateLayout::create(std::move(entries)));
    Contribution bad = fourth();
    bad.values = view_of(state);
    expect_refused(bad, reason, words);
  };
  refused({{"w", {5, 7}}, {"b", {6}}, {"none", {0}}}, "missing_tensor", "one");
  refused({{"w", {5, 7}}, {"b", {6}}, {"none", {0}}, {"one", {}}, {"two", {1}}}, "extra_tensor",
          "two");
  refused({{"w", {7, 5}}, {"b", {6}}, {"none", {0}}, {"one", {}}}, "shape_mismatch", "w");
  // Nothing broadcasts: one value is not six, nor is a scalar one value.
  refused({{"w", {5, 7}}, {"b", {1}}, {"none", {0}}, {"one", {}}}, "shape_mismatch", "b");
  refused({{"w", {5, 7}}, {"b", {6}}, {"none", {0}}, {"one", {1}}}, "shape_mismatch", "one");
}

TEST_P(EveryRuleRefuses, MoreOrFewerValuesThanItsLayoutSays) {
  for (const std::size_t count : {std::size_t{41}, std::size_t{43}}) {
    const std::vector<float> values(count, 1.0F);
    Contribution bad = fourth();
    bad.values = view_of(*layout_, values);
    expect_refused(bad, "shape_mismatch", std::to_string(count));
  }
}

TEST_P(EveryRuleRefuses, NegativeAndTooManyExamples) {
  Contribution bad = fourth();
  bad.examples = -9;
  expect_refused(bad, "bad_examples", "-9");
  bad.examples = (std::int64_t{1} << 53) + 1;
  expect_refused(bad, "bad_examples", "9007199254740993");
}

TEST_P(EveryRuleRefuses, NegativeStepsAndStaleness) {
  Contribution bad = fourth();
  bad.steps = -1;
  expect_refused(bad, "bad_steps", "-1");
  bad = fourth();
  bad.staleness = -1;
  expect_refused(bad, "bad_staleness", "-1");
}

TEST_P(EveryRuleRefuses, AContributorThatIsInAlready) {
  Contribution bad = fourth();
  bad.contributor = all_[1].name;
  expect_refused(bad, "already_contributed", all_[1].name, ErrorCode::kAlreadyExists);
  bad.contributor = "\xff";
  EXPECT_EQ(aggregator(settings(), base())->accumulate(bad).error().reason, "bad_contributor");
}

TEST_P(EveryRuleRefuses, NobodyAtAll) {
  const auto outcome = aggregator(settings(), base())->finish();
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(outcome.error().reason, AnyOf("no_contributors", "insufficient_for_rule"));
}

TEST_P(EveryRuleRefuses, OneContributorTooFew) {
  const std::int64_t fewest = fewest_contributors(settings());
  const auto made = aggregator(settings(), base());
  for (std::int64_t i = 0; i + 1 < fewest; ++i) {
    ASSERT_TRUE(made->accumulate(contribution(all_[static_cast<std::size_t>(i)])).has_value());
  }
  const auto outcome = made->finish();
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kFailedPrecondition);
  if (fewest == 1) return;
  EXPECT_EQ(outcome.error().reason, "insufficient_for_rule");
  EXPECT_THAT(outcome.error().message,
              AllOf(HasSubstr(std::to_string(fewest - 1)), HasSubstr(std::to_string(fewest))));
}

TEST_P(EveryRuleRefuses, N06_AllWeightsZeroWhereItWeighsByExamples) {
  if (!GetParam().weighs_by_examples) return;
  const auto made = aggregator(settings(), base());
  for (const Device& device : all_) {
    Contribution given = contribution(device);
    given.examples = 0;
    ASSERT_TRUE(made->accumulate(given).has_value());
  }
  const auto outcome = made->finish();
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(outcome.error().reason, "no_contributors");
}

TEST_P(EveryRuleRefuses, AValueThatWasSaidToBeFiniteAndIsNot) {
  std::vector<Device> all = devices(layout_, 12, -12, 12);
  all[4].state.tensor(small_tensor())[5] = kNan;
  const auto made = aggregator(settings(), base());
  for (const Device& device : all) {
    Contribution given = contribution(device);
    given.known_finite = true;
    const Status status = made->accumulate(given);
    if (GetParam().of_json && &device == &all[4]) {
      // It reads them whatever is said: that floats are finite says nothing of the numbers.
      EXPECT_EQ(status.error().reason, "bad_number");
      return;
    }
    ASSERT_TRUE(status.has_value());
  }
  const auto outcome = made->finish();
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(outcome.error().reason, "non_finite");
  EXPECT_THAT(outcome.error().message, AllOf(HasSubstr(all[4].name), HasSubstr(small_tensor())));
}

TEST_P(EveryRuleRefuses, ToFoldWhatIsNotFiniteAndKeepsItsSums) {
  // Found by the first fold, which has no sums yet, and by a later one.
  for (const std::size_t folded : {std::size_t{0}, std::size_t{4}}) {
    SCOPED_TRACE(folded);
    std::vector<Device> all = devices(layout_, 12, -12, 12);
    const auto made = aggregator(settings(), base());
    for (std::size_t i = 0; i < folded; ++i) {
      ASSERT_TRUE(made->accumulate(contribution(all[i])).has_value());
    }
    ASSERT_TRUE(made->fold().has_value());
    for (std::size_t i = folded; i < all.size(); ++i) {
      Contribution given = contribution(all[i]);
      given.known_finite = true;
      ASSERT_TRUE(made->accumulate(given).has_value());
    }
    const float good = all[7].state.tensor(large_tensor())[3];
    all[7].state.tensor(large_tensor())[3] = kNan;
    const Status status = made->fold();
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().reason, "non_finite");
    EXPECT_THAT(status.error().message, HasSubstr(all[7].name));
    all[7].state.tensor(large_tensor())[3] = good;
    const auto outcome = made->finish();
    ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
    EXPECT_TRUE(same_bits(*outcome, outcome_of(all)));
  }
}

TEST_P(EveryRuleRefuses, ToMergeWithAnotherRuleContentOrBase) {
  const auto made = aggregator(settings(), base());
  ASSERT_TRUE(made->accumulate(contribution(all_[0])).has_value());
  const auto expect_other = [&](const AggregationSettings& other, const AggregationBase& its) {
    const auto part = aggregator(other, its);
    ASSERT_TRUE(part->accumulate(contribution(all_[1])).has_value());
    const Status status = made->merge(*part);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().reason, "other_rule");
    EXPECT_EQ(part->num_contributors(), 1);
  };
  const bool is_mean = GetParam().settings.at("method") == "FedAvg";
  expect_other(settings_of({{"method", is_mean ? "UniformMean" : "FedAvg"}}), base());
  const bool is_median = GetParam().settings.at("method") == "Median";
  expect_other(settings_of({{"method", is_median ? "FedAvg" : "Median"}}), base());
  StateDict moved = global_.clone();
  moved.values()[3] += 1;
  AggregationBase its = base();
  its.global = &moved;
  expect_other(settings(), its);
  its = base();
  its.content =
      its.content == UpdateContent::kState ? UpdateContent::kDelta : UpdateContent::kState;
  if (!only_content(GetParam())) expect_other(settings(), its);
  EXPECT_EQ(made->num_contributors(), 1);
}

TEST_P(EveryRuleRefuses, ToMergeWhoIsInBoth) {
  const auto left = aggregator(settings(), base());
  const auto right = aggregator(settings(), base());
  for (const std::size_t i : {0, 1}) {
    ASSERT_TRUE(left->accumulate(contribution(all_[i])).has_value());
  }
  ASSERT_TRUE(left->fold().has_value());
  for (const std::size_t i : {1, 2}) {
    ASSERT_TRUE(right->accumulate(contribution(all_[i])).has_value());
  }
  const Bytes before = saved_bytes(*left);
  const Status status = left->merge(*right);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().reason, "already_contributed");
  EXPECT_THAT(status.error().message, HasSubstr(all_[1].name));
  EXPECT_EQ(saved_bytes(*left), before);
  EXPECT_EQ(right->num_contributors(), 2);
  EXPECT_EQ(left->merge(*left).error().reason, "already_contributed");
}

TEST_P(EveryRuleRefuses, ASavedAggregateThatWasCut) {
  const auto made = aggregator(settings(), base());
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(made->accumulate(contribution(all_[i])).has_value());
  }
  const Bytes saved = saved_bytes(*made);
  for (std::size_t length = 0; length < saved.size(); ++length) {
    const auto restored = restore_aggregator(settings(), base(), ByteView(saved).first(length));
    ASSERT_FALSE(restored.has_value()) << length;
    ASSERT_EQ(restored.error().code, ErrorCode::kDataLoss) << length;
    ASSERT_EQ(restored.error().reason, "bad_aggregate") << length;
  }
}

TEST_P(EveryRuleRefuses, OrTakesASavedAggregateWithAnyByteChanged) {
  const auto made = aggregator(settings(), base());
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(made->accumulate(contribution(all_[i])).has_value());
  }
  Bytes saved = saved_bytes(*made);
  for (std::size_t at = 0; at < saved.size(); ++at) {
    for (const std::byte change : {std::byte{0x01}, std::byte{0x10}, std::byte{0x80}}) {
      saved[at] ^= change;
      const auto restored = restore_aggregator(settings(), base(), saved);
      if (restored.has_value()) {
        // A letter of a name, a digit of a value: still sound, and never a crash.
        const auto outcome = (*restored)->finish();
        EXPECT_TRUE(outcome.has_value() || !outcome.error().reason.empty());
      } else {
        EXPECT_THAT(restored.error().reason, AnyOf("bad_aggregate", "other_rule"));
      }
      saved[at] ^= change;
    }
  }
}

TEST_P(EveryRuleRefuses, ASavedAggregateOfAnotherRuleContentBaseOrPopulation) {
  const auto made = aggregator(settings(), base());
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(made->accumulate(contribution(all_[i])).has_value());
  }
  const Bytes saved = saved_bytes(*made);
  const auto expect_other = [&](const AggregationSettings& other, const AggregationBase& its) {
    const auto restored = restore_aggregator(other, its, saved);
    ASSERT_FALSE(restored.has_value());
    EXPECT_EQ(restored.error().code, ErrorCode::kInvalidArgument) << restored.error().message;
    EXPECT_EQ(restored.error().reason, "other_rule") << restored.error().message;
  };
  const bool is_mean = GetParam().settings.at("method") == "FedAvg";
  expect_other(settings_of({{"method", is_mean ? "UniformMean" : "FedAvg"}}), base());
  const bool is_median = GetParam().settings.at("method") == "Median";
  expect_other(settings_of({{"method", is_median ? "FedAvg" : "Median"}}), base());
  StateDict moved = global_.clone();
  moved.values()[3] += 1;
  AggregationBase its = base();
  its.global = &moved;
  expect_other(settings(), its);
  its = base();
  its.population = 21;
  expect_other(settings(), its);
  its = base();
  its.content =
      its.content == UpdateContent::kState ? UpdateContent::kDelta : UpdateContent::kState;
  if (!only_content(GetParam())) expect_other(settings(), its);
}

INSTANTIATE_TEST_SUITE_P(Rules, EveryRuleRefuses, ::testing::ValuesIn(every_rule()), name_of);

}  // namespace
}  // namespace muster::aggregating
