#include <gmock/gmock.h>

#include <limits>

#include "core/aggregate/linear/fednova_norm.h"
#include "core/aggregate/rule_state.h"
#include "tests/core/aggregate/devices.h"
#include "tests/core/aggregate/exact_reference.h"

// What tells one linear rule from another, and what each wants of its base.
namespace muster::aggregating {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LinearRules : public ::testing::Test {
 protected:
  static StateDict state(std::vector<float> values) {
    StateDict made(*StateLayout::create({{"w", {2}}}));
    std::copy(values.begin(), values.end(), made.values().begin());
    return made;
  }

  static std::vector<float> global_of(const Result<Outcome>& outcome) {
    EXPECT_TRUE(outcome.has_value()) << outcome.error().message;
    if (!outcome) return {};
    return {outcome->global.values().begin(), outcome->global.values().end()};
  }

  AggregationBase base(UpdateContent content = UpdateContent::kState) const {
    return {.global = &x_, .content = content, .population = 4, .local_lr = 0.5};
  }

  template <typename... Devices>
  static std::vector<Device> all(Devices&&... given) {
    std::vector<Device> list;
    (list.push_back(std::forward<Devices>(given)), ...);
    return list;
  }

  const StateDict x_ = state({1, 2});
};

// --- q-FedAvg ---

TEST_F(LinearRules, QFedAvgFollowsAlgorithm2) {
  // With L = 1 / lr = 2 and q = 2, by the paper's letters:
  //   Dw = L (w - w_k), D = F^q Dw, h = q F^(q-1) ||Dw||^2 + L F^q, w <- w - sum D / sum h.
  const double losses[2] = {0.5, 3};
  const double changes[2][2] = {{0.25, -0.5}, {-1, 0.125}};
  double step[2] = {0, 0};
  double h = 0;
  for (int k = 0; k < 2; ++k) {
    double norm = 0;
    for (int i = 0; i < 2; ++i) {
      const double dw = -2 * changes[k][i];
      step[i] += losses[k] * losses[k] * dw;
      norm += dw * dw;
    }
    h += 2 * losses[k] * norm + 2 * losses[k] * losses[k];
  }
  const auto outcome = aggregate(QFedAvg{2}, base(),
                                 all(Device{.name = "a", .state = state({1.25, 1.5}), .loss = 0.5},
                                     Device{.name = "b", .state = state({0, 2.125}), .loss = 3}));
  const auto next = global_of(outcome);
  EXPECT_NEAR(next[0], 1 - step[0] / h, 1e-6);
  EXPECT_NEAR(next[1], 2 - step[1] / h, 1e-6);
}

TEST_F(LinearRules, QFedAvgWithQ0IsTheUniformMeanOfTheChanges) {
  Device a{.name = "a", .state = state({2, 3}), .examples = 9, .loss = 0.5};
  Device b{.name = "b", .state = state({4, 7}), .examples = 1, .loss = 3};
  EXPECT_THAT(global_of(aggregate(QFedAvg{0}, base(), all(std::move(a), std::move(b)))),
              ElementsAre(3, 5));
}

// Far below the global state: a change that is rounded before it is added would lose them all.
TEST_F(LinearRules, AMovedStateIsRoundedOnce) {
  const float tiny = 0x1.8p-30F;
  for (const AggregationSettings& rule :
       {AggregationSettings{FedNova{}}, AggregationSettings{QFedAvg{0}},
        AggregationSettings{NormClipping{1e30}}, AggregationSettings{Scaffold{1}}}) {
    Device a{.name = "a", .state = state({tiny, 3}), .examples = 5, .steps = 4};
    Device b{.name = "b", .state = state({tiny, 3}), .examples = 3, .steps = 4};
    EXPECT_THAT(global_of(aggregate(rule, base(), all(std::move(a), std::move(b)))),
                ElementsAre(tiny, 3))
        << describe(rule);
  }
}

// Against rational arithmetic: x + tau_eff / n * sum_i (n_i / K_i) (y_i - x), tau_eff in double.
TEST_F(LinearRules, FedNovaIsWithinOneUlpOfTheExactResult) {
  Random random(11);
  const LayoutPtr layout = *StateLayout::create({{"w", {500}}});
  const StateDict global = random_state(layout, random, -20, 20);
  const std::int64_t steps[3] = {3, 7, 100};
  std::vector<Device> devices;
  for (int i = 0; i < 3; ++i) {
    devices.push_back({.name = std::string(1, static_cast<char>('a' + i)),
                       .state = random_state(layout, random, -20, 20),
                       .examples = 10 + i,
                       .steps = steps[i]});
  }
  std::vector<StateDict> states;
  for (const Device& device : devices) states.push_back(device.state.clone());
  const auto made = aggregate(FedNova{}, {.global = &global}, std::move(devices));
  ASSERT_TRUE(made.has_value());
  mpq_class tau = 0;
  for (int i = 0; i < 3; ++i) tau += mpq_class(10 + i) * mpq_class(static_cast<double>(steps[i]));
  tau /= 33;
  for (std::size_t j = 0; j < 500; ++j) {
    const mpq_class x(static_cast<double>(global.values()[j]));
    mpq_class exact = 0;
    for (int i = 0; i < 3; ++i) {
      const mpq_class y(static_cast<double>(states[static_cast<std::size_t>(i)].values()[j]));
      exact += mpq_class(10 + i) / mpq_class(static_cast<double>(steps[i])) * (y - x);
    }
    exact = x + tau / 33 * exact;
    const float nearest = nearest_float(exact);
    const float found = made->global.values()[j];
    EXPECT_TRUE(found == nearest || found == std::nextafter(nearest, found)) << j;
  }
}

TEST_F(LinearRules, QFedAvgRefusesLossesThatItCannotWeighBy) {
  const auto made = aggregator(QFedAvg{0.5}, base());
  const StateDict values = state({1, 1});
  const auto refused = [&](Aggregator& by, std::optional<double> loss) {
    const Status status = by.accumulate(
        {.contributor = "device-07", .values = view_of(values), .initial_loss = loss});
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().reason, "bad_loss");
    EXPECT_THAT(status.error().message, HasSubstr("device-07"));
  };
  refused(*made, std::nullopt);
  for (const double loss : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity(), 1e300, 1e-300}) {
    refused(*made, loss);
  }
  const auto steep = aggregator(QFedAvg{100}, base());
  for (const double loss : {10.0, 0.1}) refused(*steep, loss);
  // From q = 1 on a loss of 0 is sound: it weighs nothing, and the step becomes smaller at most.
  const auto one = aggregator(QFedAvg{1}, base());
  ASSERT_TRUE(
      one->accumulate({.contributor = "a", .values = view_of(values), .initial_loss = 0.0}));
  EXPECT_EQ(one->finish().error().reason, "no_contributors");
}

// --- FedNova ---

TEST_F(LinearRules, FedNovaRunsTheRecursionWithMomentumAndProximalTermTogether) {
  const double rho = 0.9, shrink = 0.02;
  double buffer = 0, done = 0;
  for (int step = 1; step <= 300; ++step) {
    buffer = rho * buffer + 1 - shrink * done;
    done += buffer;
    EXPECT_NEAR(fednova_norm(step, rho, shrink), done, 1e-9 * done) << step;
  }
  EXPECT_EQ(fednova_norm(1, 0.5, 0.25), 1);
  EXPECT_EQ(fednova_norm(1'000'003, 0, 0), 1'000'003);
}

TEST_F(LinearRules, FedNovaRefusesExamplesWithoutSteps) {
  const auto made = aggregator(FedNova{}, base());
  const StateDict values = state({1, 1});
  const Status status = made->accumulate(
      {.contributor = "device-07", .values = view_of(values), .examples = 3, .steps = 0});
  EXPECT_EQ(status.error().reason, "bad_steps");
  EXPECT_THAT(status.error().message, HasSubstr("device-07"));
  EXPECT_TRUE(made->accumulate({.contributor = "none", .values = view_of(values)}).has_value());
}

TEST_F(LinearRules, FedNovaRefusesLocalTrainingThatItCannotUndo) {
  const auto refused = [&](double lr, double momentum, double mu) {
    AggregationBase its = base();
    its.local_lr = lr;
    its.local_momentum = momentum;
    its.local_mu = mu;
    const auto made = make_aggregator(FedNova{}, its);
    return !made.has_value() && made.error().reason == "bad_aggregation";
  };
  EXPECT_FALSE(refused(0, 0, 0));  // the learning rate cancels
  EXPECT_TRUE(refused(0.1, 1, 0));
  EXPECT_TRUE(refused(0.1, -0.1, 0));
  EXPECT_TRUE(refused(0.1, 0, -1));
  EXPECT_TRUE(refused(0, 0, 0.1));
  EXPECT_TRUE(refused(0.5, 0, 2));
  EXPECT_TRUE(refused(std::numeric_limits<double>::quiet_NaN(), 0, 1));
}

// --- SCAFFOLD and FedDyn ---

TEST_F(LinearRules, ScaffoldRefusesNoStepsNoLearningRateAndMoreThanAll) {
  const StateDict values = state({1, 1});
  const auto made = aggregator(Scaffold{}, base());
  EXPECT_EQ(made->accumulate({.contributor = "a", .values = view_of(values), .examples = 1})
                .error()
                .reason,
            "bad_steps");
  AggregationBase its = base();
  for (const double lr : {0.0, -0.1, std::numeric_limits<double>::infinity()}) {
    its.local_lr = lr;
    EXPECT_EQ(make_aggregator(Scaffold{}, its).error().reason, "bad_aggregation");
    EXPECT_EQ(make_aggregator(QFedAvg{}, its).error().reason, "bad_aggregation");
  }
  its = base();
  its.population = 1;
  for (const AggregationSettings& rule :
       {AggregationSettings{Scaffold{}}, AggregationSettings{FedDyn{0.5}}}) {
    const auto outcome = aggregate(rule, its,
                                   all(Device{.name = "a", .state = state({1, 1})},
                                       Device{.name = "b", .state = state({1, 1})}));
    EXPECT_EQ(outcome.error().reason, "insufficient_for_rule");
    EXPECT_THAT(outcome.error().message, HasSubstr("2 contributors out of a population of 1"));
  }
  its.population = 0;
  EXPECT_EQ(make_aggregator(Scaffold{}, its).error().reason, "bad_aggregation");
}

// --- norms ---

TEST_F(LinearRules, NormClippingShortensLongChangesAndTellsWhose) {
  // Changes (3, 4) of norm 5 and (0, 0.5); the bound is 2.5.
  const auto outcome =
      aggregate(NormClipping{2.5}, base(),
                all(Device{.name = "long", .state = state({4, 6}), .examples = 3},
                    Device{.name = "short", .state = state({1, 2.5}), .examples = 1}));
  EXPECT_THAT(global_of(outcome), ElementsAre(1 + 3 * 1.5F / 4, 2 + (3 * 2 + 0.5F) / 4));
  EXPECT_EQ(outcome->report, (Json{{"clipped", {"long"}}}));
  // Exactly at the bound nothing is clipped.
  const auto at_bound =
      aggregate(NormClipping{5}, base(), all(Device{.name = "long", .state = state({4, 6})}));
  EXPECT_THAT(global_of(at_bound), ElementsAre(4, 6));
  EXPECT_EQ(at_bound->report, Json::object());
}

TEST_F(LinearRules, NormFilteringLeavesLongChangesOutAndTellsWhose) {
  const auto outcome =
      aggregate(NormFiltering{2.5}, base(UpdateContent::kDelta),
                all(Device{.name = "long", .state = state({3, 4}), .examples = 3},
                    Device{.name = "longer", .state = state({30, 4}), .examples = 3},
                    Device{.name = "short", .state = state({0, 0.5}), .examples = 1}));
  EXPECT_THAT(global_of(outcome), ElementsAre(1, 2.5F));
  EXPECT_EQ(outcome->report, (Json{{"filtered", {"long", "longer"}}}));
}

TEST_F(LinearRules, NormFilteringOfEverybodyIsAnErrorThatSaysSo) {
  const auto outcome =
      aggregate(NormFiltering{2.5}, base(), all(Device{.name = "long", .state = state({4, 6})}));
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().reason, "no_contributors");
  EXPECT_THAT(outcome.error().message, AllOf(HasSubstr("over the bound"), HasSubstr("2.5")));
}

TEST_F(LinearRules, ReportsOutliveASaveAndAMerge) {
  const Device far{.name = "far", .state = state({400, 6})};
  const Device away{.name = "away", .state = state({40, 6})};
  const Device near{.name = "near", .state = state({1, 2})};
  const auto left = aggregator(NormClipping{2.5}, base());
  const auto right = aggregator(NormClipping{2.5}, base());
  ASSERT_TRUE(left->accumulate(contribution(far)).has_value());
  ASSERT_TRUE(right->accumulate(contribution(away)).has_value());
  ASSERT_TRUE(right->accumulate(contribution(near)).has_value());
  const Bytes saved = saved_bytes(*left);
  const auto restored = restore_aggregator(NormClipping{2.5}, base(), saved);
  ASSERT_TRUE(restored.has_value()) << restored.error().message;
  ASSERT_TRUE((*restored)->merge(*right).has_value());
  EXPECT_EQ((*restored)->finish()->report, (Json{{"clipped", {"away", "far"}}}));
}

// --- FedBuff ---

TEST_F(LinearRules, FedBuffWeighsByStalenessAndDividesByTheNumberOfUpdates) {
  // Staleness 0, 3 and 8: weights 1, 1/2 and 1/3.
  const auto outcome =
      aggregate(FedBuff{.buffer_size = 3, .server_lr = 0.5}, base(UpdateContent::kDelta),
                all(Device{.name = "a", .state = state({3, 0})},
                    Device{.name = "b", .state = state({0, 6}), .staleness = 3},
                    Device{.name = "c", .state = state({9, 9}), .staleness = 8}));
  const auto next = global_of(outcome);
  EXPECT_NEAR(next[0], 1 + 0.5 * (3 + 0 + 3) / 3, 1e-6);
  EXPECT_NEAR(next[1], 2 + 0.5 * (0 + 3 + 3) / 3, 1e-6);
}

TEST_F(LinearRules, FedBuffRefusesStatesAndWhatIsTooStale) {
  EXPECT_EQ(make_aggregator(FedBuff{.buffer_size = 2}, base()).error().reason, "bad_aggregation");
  const auto made =
      aggregator(FedBuff{.buffer_size = 2, .max_staleness = 4}, base(UpdateContent::kDelta));
  const Device old{.name = "device-07", .state = state({1, 1}), .staleness = 5};
  const Status status = made->accumulate(contribution(old));
  EXPECT_EQ(status.error().reason, "too_stale");
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("device-07"), HasSubstr("at most 4")));
}

// --- identity, states that are kept, results that do not fit ---

TEST_F(LinearRules, OneContributorIsTheIdentityBitForBit) {
  Random random(5);
  const LayoutPtr layout = *StateLayout::create({{"w", {20'000}}});
  StateDict values(layout);
  for (float& value : values.values()) {
    do {
      value = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
    } while (!std::isfinite(value));
  }
  const StateDict global = random_state(layout, random, -3, 3);
  for (const AggregationSettings& rule :
       {AggregationSettings{FedAvg{}}, AggregationSettings{FedProx{0.1}},
        AggregationSettings{UniformMean{}}, AggregationSettings{NormFiltering{1e50}},
        AggregationSettings{NormClipping{1e50}}, AggregationSettings{QFedAvg{0}},
        AggregationSettings{Scaffold{1}}}) {
    for (const std::int64_t examples :
         {std::int64_t{1}, std::int64_t{600}, std::int64_t{1} << 53}) {
      const auto made = aggregator(rule, {.global = &global, .local_lr = 0.1});
      ASSERT_TRUE(made->accumulate(
          {.contributor = "a", .values = view_of(values), .examples = examples, .steps = 1 << 20}));
      const auto outcome = made->finish();
      ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
      EXPECT_EQ(bits_of(outcome->global.values()), bits_of(values.values()));
    }
  }
}

TEST_F(LinearRules, RefuseARuleStateThatIsNotTheirs) {
  const StateDict m(*rule_state_layout(x_.layout(), {"m"}));
  StateDict both(*rule_state_layout(x_.layout(), {"m", "v"}));
  const auto reason = [&](const AggregationSettings& rule, const StateDict& kept) {
    AggregationBase its = base();
    its.rule_state = &kept;
    const auto made = make_aggregator(rule, its);
    return made.has_value() ? std::string("taken") : made.error().reason;
  };
  EXPECT_EQ(reason(FedAvgM{}, m), "taken");
  EXPECT_EQ(reason(FedAdaptive{}, both), "taken");
  EXPECT_EQ(reason(FedAvgM{}, both), "bad_aggregation");
  EXPECT_EQ(reason(FedAdaptive{}, m), "bad_aggregation");
  EXPECT_EQ(reason(Scaffold{}, m), "bad_aggregation");
  EXPECT_EQ(reason(FedAvg{}, m), "bad_aggregation");
  EXPECT_EQ(reason(Median{}, m), "bad_aggregation");
  both.values()[3] = -1;  // of v
  EXPECT_EQ(reason(FedAdaptive{}, both), "bad_aggregation");
  both.values()[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(reason(FedAdaptive{}, both), "bad_aggregation");
}

TEST_F(LinearRules, TellWhenAResultDoesNotFit) {
  const StateDict far = state({3e38F, 0});
  AggregationBase its{.global = &far, .content = UpdateContent::kDelta, .population = 4};
  const Device device{.name = "a", .state = state({3e38F, 0})};
  for (const AggregationSettings& rule :
       {AggregationSettings{FedAvg{}}, AggregationSettings{FedAvgM{}},
        AggregationSettings{FedAdaptive{}}, AggregationSettings{FedDyn{0.5}}}) {
    const auto made = aggregator(rule, its);
    ASSERT_TRUE(made->accumulate(contribution(device)).has_value());
    const auto outcome = made->finish();
    ASSERT_FALSE(outcome.has_value()) << method_name(rule);
    EXPECT_EQ(outcome.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_EQ(outcome.error().reason, "non_finite");
    EXPECT_THAT(outcome.error().message, HasSubstr("w"));
  }
}

TEST(RuleStateLayout, HasASlotAfterTheOther) {
  const LayoutPtr model = *StateLayout::create({{"b", {3}}, {"a/x", {2}}, {"none", {0}}});
  const LayoutPtr layout = *rule_state_layout(*model, {"m", "v"});
  EXPECT_EQ(layout->num_elements(), 10);
  StateDict state(layout);
  for (std::size_t i = 0; i < 10; ++i) state.values()[i] = static_cast<float>(i);
  EXPECT_THAT(slot_of(state, 1, *model), ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT(state.tensor("v/a/x"), ElementsAre(5, 6));
  EXPECT_THAT(state.tensor("m/b"), ElementsAre(2, 3, 4));
  const LayoutPtr long_name = *StateLayout::create({{std::string(511, 'x'), {1}}});
  EXPECT_FALSE(rule_state_layout(*long_name, {"m"}).has_value());
}

}  // namespace
}  // namespace muster::aggregating
