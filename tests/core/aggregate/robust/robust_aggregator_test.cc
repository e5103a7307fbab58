#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/aggregate/robust/robust.h"
#include "core/aggregate/robust/robust_rules.h"
#include "tests/core/aggregate/devices.h"

namespace muster::aggregating {
namespace {

using testing::HasSubstr;

const std::vector<AggregationSettings> kRules = {
    Median{},       TrimmedMean{.beta = 0.3},
    Krum{.f = 2},   MultiKrum{.f = 2, .m = 5},
    Bulyan{.f = 2}, GeometricMedian{.max_iterations = 6}};

class RobustAggregator : public testing::Test {
 protected:
  // Magnitudes up to 2^+-100 (1e30), zeros of both signs, columns with ties, equal devices.
  std::vector<Device> devices(int count, std::uint64_t seed = 1) const {
    Random random(seed);
    std::vector<Device> all;
    for (int i = 0; i < count; ++i) {
      Device device{.name = "d" + std::to_string(100 + i),
                    .state = random_state(layout_, random, -100, 100),
                    .examples = static_cast<std::int64_t>(random.below(50)),
                    .steps = 3,
                    .loss = 0.1,
                    .staleness = 2};
      for (float& value : device.state.tensor("ties")) {
        value = static_cast<float>(random.below(3)) - 1;
      }
      if (i % 5 == 4) device.state = all.back().state.clone();
      all.push_back(std::move(device));
    }
    return all;
  }

  AggregationBase base(UpdateContent content = UpdateContent::kState) const {
    return {.global = &global_, .content = content};
  }

  static StateDict random_global(const LayoutPtr& layout) {
    Random random(99);
    return random_state(layout, random, -3, 3);
  }

  const LayoutPtr layout_ =
      *StateLayout::create({{"w", {37, 61}}, {"ties", {129}}, {"none", {0}}, {"one", {}}});
  const StateDict global_ = random_global(layout_);
};

TEST_F(RobustAggregator, GivesTheSameBitsForAnyOrderNumberOfWorkersMergeAndRestart) {
  std::vector<Device> all = devices(13);
  for (const AggregationSettings& rule : kRules) {
    for (const UpdateContent content : {UpdateContent::kState, UpdateContent::kDelta}) {
      SCOPED_TRACE(describe(rule));
      Random random(4);
      const auto want = aggregate(rule, base(content), all);
      ASSERT_TRUE(want.has_value()) << want.error().message;
      for (int order = 0; order < 200; ++order) {
        random.shuffle(all);
        Workers workers(1 + order % 3);
        std::unique_ptr<Aggregator> whole = make_robust_aggregator(rule, base(content));
        std::unique_ptr<Aggregator> half = make_robust_aggregator(rule, base(content));
        const std::size_t middle = random.below(all.size() + 1);
        for (std::size_t i = 0; i < all.size(); ++i) {
          const auto& into = order % 2 == 0 && i < middle ? half : whole;
          ASSERT_TRUE(into->accumulate(contribution(all[i])).has_value());
        }
        Bytes saved;
        if (order % 4 == 0) {
          saved = saved_bytes(*half);
          half = *restore_aggregator(rule, base(content), saved);
        }
        ASSERT_TRUE(whole->merge(*half).has_value());
        if (order % 5 == 0) {
          ASSERT_TRUE(whole->fold(&workers).has_value());
        }
        EXPECT_EQ(whole->num_contributors(), 13);
        const auto got = whole->finish(&workers);
        ASSERT_TRUE(got.has_value()) << got.error().message;
        ASSERT_TRUE(same_bits(*got, *want));
      }
    }
  }
}

TEST_F(RobustAggregator, OfDeltasAddsThemToTheGlobalState) {
  std::vector<Device> all = devices(11);
  for (Device& device : all) {
    for (float& value : device.state.values()) value = 0.25F;
  }
  for (const AggregationSettings& rule : kRules) {
    const auto got = aggregate(rule, base(UpdateContent::kDelta), all);
    ASSERT_TRUE(got.has_value()) << got.error().message;
    // Coefficients of the geometric median are rounded, so a sum may fall off the middle between
    // two float32.
    const bool rounded = std::holds_alternative<GeometricMedian>(rule);
    for (std::size_t i = 0; i < global_.values().size(); ++i) {
      const auto want = static_cast<float>(0.25 + global_.values()[i]);
      ASSERT_NEAR(got->global.values()[i], want, rounded ? 1e-7 * std::abs(want) : 0)
          << describe(rule);
    }
  }
}

TEST_F(RobustAggregator, ReportsTheSelectedByName) {
  const std::vector<Device> all = devices(11);
  const auto krum = aggregate(Krum{.f = 2}, base(), all);
  const auto multi = aggregate(MultiKrum{.f = 2, .m = 5}, base(), all);
  const auto bulyan = aggregate(Bulyan{.f = 2}, base(), all);
  EXPECT_EQ(krum->report.at("selected").size(), 1U);
  EXPECT_EQ(multi->report.at("selected").size(), 5U);
  EXPECT_EQ(bulyan->report.at("selected").size(), 7U);
  EXPECT_EQ(krum->report.at("selected")[0], multi->report.at("selected")[0]);
  EXPECT_EQ(aggregate(Median{}, base(), all)->report, Json::object());
  const std::string name = krum->report.at("selected")[0].get<std::string>();
  const auto chosen =
      std::ranges::find_if(all, [&](const Device& device) { return device.name == name; });
  EXPECT_EQ(bits_of(krum->global.values()), bits_of(chosen->state.values()));
}

TEST_F(RobustAggregator, RefusesFewerContributorsThanItsBoundAndTakesAsMany) {
  struct Bound {
    AggregationSettings rule;
    int fewest;
    std::string told;
  };
  for (const Bound& bound : {Bound{Krum{.f = 0}, 3, "f = 0"},
                             {Krum{.f = 1}, 5, "f = 1"},
                             {Krum{.f = 4}, 11, "f = 4"},
                             {MultiKrum{.f = 2, .m = 1}, 7, "f = 2"},
                             {MultiKrum{.f = 2, .m = 9}, 9, "m = 9"},
                             {Bulyan{.f = 0}, 3, "f = 0"},
                             {Bulyan{.f = 1}, 7, "f = 1"},
                             {Bulyan{.f = 3}, 15, "f = 3"}}) {
    SCOPED_TRACE(describe(bound.rule));
    const auto refused = aggregate(bound.rule, base(), devices(bound.fewest - 1));
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_EQ(refused.error().reason, "insufficient_for_rule");
    EXPECT_THAT(refused.error().message, HasSubstr(std::to_string(bound.fewest - 1)));
    EXPECT_THAT(refused.error().message, HasSubstr(std::to_string(bound.fewest)));
    EXPECT_THAT(refused.error().message, HasSubstr(bound.told));
    const auto taken = aggregate(bound.rule, base(), devices(bound.fewest));
    EXPECT_TRUE(taken.has_value()) << taken.error().message;
  }
}

TEST_F(RobustAggregator, RefusesATrimmedMeanThatLeavesNothing) {
  const auto refused = aggregate(TrimmedMean{.beta = 0.5}, base(), devices(4));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(refused.error().reason, "insufficient_for_rule");
  EXPECT_TRUE(aggregate(TrimmedMean{.beta = 0.49}, base(), devices(4)).has_value());
}

TEST_F(RobustAggregator, RefusesNobodyAndGeometricMedianThoseWithoutExamples) {
  for (const AggregationSettings& rule : kRules) {
    const auto refused = aggregate(rule, base(), {});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_EQ(refused.error().reason, "no_contributors");
  }
  std::vector<Device> all = devices(3);
  for (Device& device : all) device.examples = 0;
  EXPECT_EQ(aggregate(GeometricMedian{}, base(), all).error().reason, "no_contributors");
  EXPECT_TRUE(aggregate(Median{}, base(), all).has_value());
}

TEST_F(RobustAggregator, NamesContributorAndTensorOfAValueThatSlippedThrough) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (const AggregationSettings& rule : kRules) {
      SCOPED_TRACE(describe(rule));
      std::vector<Device> all = devices(13);
      for (Device& device : all) device.examples = 1;
      all[7].state.tensor("w")[1234] = bad;
      const auto aggregator = make_robust_aggregator(rule, base());
      const auto other = make_robust_aggregator(rule, base());
      for (const Device& device : all) {
        Contribution part = contribution(device);
        part.known_finite = true;
        ASSERT_TRUE(aggregator->accumulate(part).has_value());
        ASSERT_TRUE(other->accumulate(part).has_value());
      }
      for (const Error& error : {aggregator->finish().error(), other->fold().error()}) {
        EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
        EXPECT_EQ(error.reason, "non_finite");
        EXPECT_THAT(error.message, HasSubstr("d107"));
        EXPECT_THAT(error.message, HasSubstr("\"w\""));
      }
    }
  }
}

TEST_F(RobustAggregator, RefusesAnOutcomeThatDoesNotFitFloat32) {
  std::vector<Device> all = devices(11);
  StateDict global(layout_);
  for (float& value : global.values()) value = std::numeric_limits<float>::max();
  for (Device& device : all) {
    device.examples = 1;
    std::ranges::copy(global.values(), device.state.values().begin());
  }
  for (const AggregationSettings& rule : kRules) {
    const auto outcome =
        aggregate(rule, {.global = &global, .content = UpdateContent::kDelta}, all);
    ASSERT_FALSE(outcome.has_value()) << describe(rule);
    EXPECT_EQ(outcome.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_EQ(outcome.error().reason, "non_finite");
  }
}

TEST_F(RobustAggregator, GoesOnFromFoldedCopiesWhenTheValuesAreGone) {
  const std::vector<Device> all = devices(13);
  const auto want = aggregate(Median{}, base(), all);
  const auto aggregator = make_robust_aggregator(Median{}, base());
  {
    std::vector<Device> lent = devices(13);
    for (const Device& device : lent) {
      ASSERT_TRUE(aggregator->accumulate(contribution(device)).has_value());
      ASSERT_TRUE(aggregator->fold().has_value());
    }
    for (Device& device : lent) {
      for (float& value : device.state.values()) value = 7;
    }
  }
  EXPECT_TRUE(same_bits(*aggregator->finish(), *want));
}

TEST_F(RobustAggregator, SavesEveryFieldOfAContribution) {
  std::vector<Device> all = devices(11);
  const auto aggregator = make_robust_aggregator(GeometricMedian{}, base());
  for (const Device& device : all) {
    ASSERT_TRUE(aggregator->accumulate(contribution(device)).has_value());
  }
  const Bytes saved = saved_bytes(*aggregator);
  const auto text = std::string(as_text(ByteView(saved).first(6000)));
  EXPECT_THAT(text, HasSubstr(R"(\"examples\")"));
  EXPECT_THAT(text, HasSubstr(R"(\"steps\":3)"));
  EXPECT_THAT(text, HasSubstr(R"(\"staleness\":2)"));
  EXPECT_THAT(text, HasSubstr(R"(\"initial_loss\":0.1)"));
  EXPECT_THAT(text, HasSubstr(R"("c00")"));
  // The same from bytes that do not begin as floats have to, and saved once more.
  Bytes shifted(saved.size() + 1);
  std::memcpy(shifted.data() + 1, saved.data(), saved.size());
  const auto restored = restore_aggregator(GeometricMedian{}, base(), ByteView(shifted).subspan(1));
  ASSERT_TRUE(restored.has_value()) << restored.error().message;
  EXPECT_EQ(saved_bytes(**restored), saved);
}

TEST_F(RobustAggregator, RestoresNothingButWhatItsOwnRuleSaved) {
  const auto aggregator = make_robust_aggregator(Krum{.f = 1}, base());
  for (const Device& device : devices(3)) {
    ASSERT_TRUE(aggregator->accumulate(contribution(device)).has_value());
  }
  const Bytes saved = saved_bytes(*aggregator);
  const StateDict other(layout_);
  AggregationBase many = base();
  many.population = 2;
  const auto reason = [&](const AggregationSettings& rule, const AggregationBase& from) {
    return restore_aggregator(rule, from, saved).error().reason;
  };
  EXPECT_EQ(reason(Krum{.f = 2}, base()), "other_rule");
  EXPECT_EQ(reason(Median{}, base()), "other_rule");
  EXPECT_EQ(reason(FedAvg{}, base()), "other_rule");
  EXPECT_EQ(reason(Krum{.f = 1}, base(UpdateContent::kDelta)), "other_rule");
  EXPECT_EQ(reason(Krum{.f = 1}, {.global = &other}), "other_rule");
  EXPECT_EQ(reason(Krum{.f = 1}, many), "other_rule");
}

TEST_F(RobustAggregator, RefusesSavedBytesThatAreCutOffOrChanged) {
  const auto aggregator = make_robust_aggregator(Median{}, base());
  for (const Device& device : devices(2)) {
    ASSERT_TRUE(aggregator->accumulate(contribution(device)).has_value());
  }
  const Bytes saved = saved_bytes(*aggregator);
  const auto reason = [&](ByteView bytes) -> std::string {
    const auto restored = restore_aggregator(Median{}, base(), bytes);
    if (restored) return "";
    EXPECT_EQ(restored.error().code, ErrorCode::kDataLoss);
    return restored.error().reason;
  };
  for (std::size_t length = 0; length < saved.size(); length += length < 1200 ? 1 : 997) {
    EXPECT_EQ(reason(ByteView(saved).first(length)), "bad_aggregate") << length;
  }
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text(as_text(saved));
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return reason(as_bytes(text));
  };
  EXPECT_EQ(with("d100", "d102"), "bad_aggregate");  // not in order
  EXPECT_EQ(with("d100", "d101"), "bad_aggregate");  // twice
  EXPECT_EQ(with("\"c1\"", "\"c2\""), "bad_aggregate");
  EXPECT_EQ(with("\"F32\"", "\"I32\""), "bad_aggregate");
  EXPECT_EQ(with("steps\\\":3", "steps\\\":-"), "bad_aggregate");
  EXPECT_EQ(with("\\\"format\\\":1", "\\\"format\\\":2"), "bad_aggregate");
  EXPECT_EQ(with("staleness", "stalenesz"), "bad_aggregate");
  EXPECT_EQ(with("\"aggregate\"", "\"aggregatf\""), "bad_aggregate");
  Bytes not_finite = saved;
  std::memset(not_finite.data() + not_finite.size() - 4, 0xff, 4);
  EXPECT_EQ(reason(not_finite), "bad_aggregate");
}

TEST_F(RobustAggregator, RefusesAllAfterItIsFinishedOrMergedAway) {
  const std::vector<Device> all = devices(3);
  const auto aggregator = make_robust_aggregator(Median{}, base());
  const auto gone = make_robust_aggregator(Median{}, base());
  ASSERT_TRUE(gone->accumulate(contribution(all[0])).has_value());
  ASSERT_TRUE(aggregator->merge(*gone).has_value());
  ASSERT_TRUE(aggregator->finish().has_value());
  for (const auto* one : {&aggregator, &gone}) {
    EXPECT_EQ((*one)->validate(contribution(all[1])).error().reason, "finished");
    EXPECT_EQ((*one)->accumulate(contribution(all[1])).error().reason, "finished");
    EXPECT_EQ((*one)->fold().error().reason, "finished");
    EXPECT_EQ((*one)->finish().error().reason, "finished");
    EXPECT_EQ((*one)->save([](ByteView) -> Status { return {}; }).error().reason, "finished");
  }
  const auto fresh = make_robust_aggregator(Median{}, base());
  EXPECT_EQ(fresh->merge(*gone).error().reason, "finished");
}

TEST_F(RobustAggregator, MergesOnlyItsOwnKindAndNobodyTwice) {
  const std::vector<Device> all = devices(3);
  const auto aggregator = make_robust_aggregator(Krum{.f = 1}, base());
  ASSERT_TRUE(aggregator->accumulate(contribution(all[0])).has_value());
  const StateDict zero(layout_);
  EXPECT_EQ(aggregator->merge(*make_robust_aggregator(Krum{.f = 2}, base())).error().reason,
            "other_rule");
  EXPECT_EQ(
      aggregator->merge(*make_robust_aggregator(Krum{.f = 1}, {.global = &zero})).error().reason,
      "other_rule");
  EXPECT_EQ(aggregator->merge(*make_robust_aggregator(Krum{.f = 1}, base(UpdateContent::kDelta)))
                .error()
                .reason,
            "other_rule");
  const auto twice = make_robust_aggregator(Krum{.f = 1}, base());
  ASSERT_TRUE(twice->accumulate(contribution(all[1])).has_value());
  ASSERT_TRUE(twice->accumulate(contribution(all[0])).has_value());
  EXPECT_EQ(aggregator->merge(*twice).error().reason, "already_contributed");
  EXPECT_EQ(aggregator->merge(*aggregator).error().reason, "already_contributed");
  EXPECT_EQ(aggregator->num_contributors(), 1);
  EXPECT_EQ(twice->num_contributors(), 2);
}

TEST(MakeRobustAggregator, IsNullForRulesThatNeedNoMoreThanSums) {
  const StateDict state(*StateLayout::create({{"w", {1}}}));
  EXPECT_EQ(make_robust_aggregator(FedAvg{}, {.global = &state}), nullptr);
  EXPECT_EQ(make_robust_aggregator(NormClipping{.max_norm = 1}, {.global = &state}), nullptr);
  EXPECT_NE(make_robust_aggregator(Median{}, {.global = &state}), nullptr);
}

}  // namespace
}  // namespace muster::aggregating
