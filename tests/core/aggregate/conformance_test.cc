#include "tests/core/aggregate/conformance.h"

#include <numeric>

#include "core/tensor/safetensors.h"

// What every rule has to keep to, however its updates come.
namespace muster::aggregating {
namespace {

class EveryRule : public RuleTest {};

TEST_P(EveryRule, GivesTheSameBitsInAnyOrderOfArrival) {
  const int widest = GetParam().widest_exponent;
  const std::vector<Device> all = devices(layout_, 1, -widest, widest);
  const Outcome wanted = outcome_of(all);
  Random random(2);
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (int i = 0; i < 1000; ++i) {
    random.shuffle(order);
    const auto made = aggregator(settings(), base());
    for (const std::size_t device : order) {
      ASSERT_TRUE(made->accumulate(contribution(all[device])).has_value());
    }
    const auto outcome = made->finish();
    ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
    ASSERT_TRUE(same_bits(*outcome, wanted)) << "order " << i;
  }
}

TEST_P(EveryRule, GivesTheSameBitsWithAnyNumberOfWorkers) {
  const LayoutPtr layout = large_layout();
  global_ = global_of(layout);
  const std::vector<Device> all = devices(layout, 3, -30, 30);
  const Outcome wanted = outcome_of(all);
  for (const int count : {1, 2, 3}) {
    Workers workers(count);
    EXPECT_TRUE(same_bits(outcome_of(all, &workers), wanted)) << count;
  }
}

TEST_P(EveryRule, GoesOnWhereItWasSaved) {
  const std::vector<Device> all = devices(layout_, 4, -12, 12);
  const Outcome wanted = outcome_of(all);
  for (const std::size_t before : {std::size_t{0}, std::size_t{1}, all.size() / 2, all.size()}) {
    SCOPED_TRACE(before);
    const auto first = aggregator(settings(), base());
    // Odd ones first, so that later names fall between those that are saved.
    std::vector<std::size_t> order;
    for (std::size_t i = 1; i < all.size(); i += 2) order.push_back(i);
    for (std::size_t i = 0; i < all.size(); i += 2) order.push_back(i);
    for (std::size_t i = 0; i < before; ++i) {
      ASSERT_TRUE(first->accumulate(contribution(all[order[i]])).has_value());
    }
    const Bytes saved = saved_bytes(*first);
    auto second = restore_aggregator(settings(), base(), saved);
    ASSERT_TRUE(second.has_value()) << second.error().message;
    EXPECT_EQ((*second)->num_contributors(), static_cast<std::int64_t>(before));
    EXPECT_EQ(saved_bytes(**second), saved);
    if (before > 0) {
      EXPECT_EQ((*second)->accumulate(contribution(all[order[0]])).error().reason,
                "already_contributed");
    }
    for (std::size_t i = before; i < all.size(); ++i) {
      ASSERT_TRUE((*second)->accumulate(contribution(all[order[i]])).has_value());
    }
    const auto outcome = (*second)->finish();
    ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
    EXPECT_TRUE(same_bits(*outcome, wanted));
  }
}

TEST_P(EveryRule, MergesPartsIntoTheWhole) {
  const std::vector<Device> all = devices(layout_, 5, -12, 12);
  const Outcome wanted = outcome_of(all);
  // Which of the two parts are folded before they are merged.
  for (int folded = 0; folded < 4; ++folded) {
    SCOPED_TRACE(folded);
    const auto left = aggregator(settings(), base());
    const auto right = aggregator(settings(), base());
    for (std::size_t i = 0; i < all.size(); ++i) {
      Aggregator& part = i % 3 == 0 ? *left : *right;
      ASSERT_TRUE(part.accumulate(contribution(all[i])).has_value());
    }
    if ((folded & 1) != 0) {
      ASSERT_TRUE(left->fold().has_value());
    }
    if ((folded & 2) != 0) {
      ASSERT_TRUE(right->fold().has_value());
    }
    ASSERT_TRUE(left->merge(*right).has_value());
    EXPECT_EQ(left->num_contributors(), kDevices);
    EXPECT_EQ(right->finish().error().reason, "finished");
    const auto outcome = left->finish();
    ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
    EXPECT_TRUE(same_bits(*outcome, wanted));
  }
}

TEST_P(EveryRule, NeedsTheValuesNoLongerOnceTheyAreFolded) {
  const std::vector<Device> all = devices(layout_, 6, -12, 12);
  const auto made = aggregator(settings(), base());
  std::vector<std::weak_ptr<const UpdateValues>> watched;
  for (const Device& device : all) {
    Contribution given = contribution(device);
    given.values = values_of(device.state.clone());
    watched.push_back(given.values);
    ASSERT_TRUE(made->accumulate(std::move(given)).has_value());
  }
  ASSERT_TRUE(made->fold().has_value());
  for (const auto& values : watched) EXPECT_TRUE(values.expired());
  const auto outcome = made->finish();
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
  EXPECT_TRUE(same_bits(*outcome, outcome_of(all)));
}

TEST_P(EveryRule, KeepsItsStateFromRoundToRoundThroughAFile) {
  const std::vector<Device> first = devices(layout_, 7, -12, 4);
  const std::vector<Device> second = devices(layout_, 8, -12, 4);
  const Outcome one = outcome_of(first);
  AggregationBase next = base();
  next.global = &one.global;
  next.rule_state = one.rule_state ? &*one.rule_state : nullptr;
  const auto straight = aggregate(settings(), next, second);
  ASSERT_TRUE(straight.has_value()) << straight.error().message;

  std::optional<StateDict> reread;
  if (one.rule_state) {
    auto read = read_state(write_state(*one.rule_state), one.rule_state->layout_ptr());
    ASSERT_TRUE(read.has_value());
    reread = *std::move(read);
    next.rule_state = &*reread;
  }
  const auto resumed = aggregate(settings(), next, second);
  ASSERT_TRUE(resumed.has_value()) << resumed.error().message;
  EXPECT_TRUE(same_bits(*resumed, *straight));
  if (one.rule_state) {
    next.rule_state = nullptr;
    EXPECT_FALSE(same_bits(*aggregate(settings(), next, second), *straight));
  }
}

TEST_P(EveryRule, FinishesOnce) {
  const std::vector<Device> all = devices(layout_, 9, -12, 12);
  const auto made = aggregator(settings(), base());
  const auto other = aggregator(settings(), base());
  for (const Device& device : all) ASSERT_TRUE(made->accumulate(contribution(device)).has_value());
  ASSERT_TRUE(made->finish().has_value());
  for (const Status& status :
       {made->validate(contribution(all[0])), made->accumulate(contribution(all[0])), made->fold(),
        made->merge(*other), other->merge(*made), made->save([](ByteView) { return Status{}; })}) {
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().reason, "finished");
    EXPECT_EQ(status.error().code, ErrorCode::kFailedPrecondition);
  }
  EXPECT_EQ(made->finish().error().reason, "finished");
}

INSTANTIATE_TEST_SUITE_P(Rules, EveryRule, ::testing::ValuesIn(every_rule()), name_of);

}  // namespace
}  // namespace muster::aggregating
