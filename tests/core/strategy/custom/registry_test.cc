#include "core/strategy/custom/registry.h"

#include <gmock/gmock.h>

#include <limits>
#include <stdexcept>

#include "tests/core/strategy/strategy_support.h"

namespace muster {
namespace {

using strategies::Problem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<StrategyResult> give_back(StrategyContext& /*context*/, const Json& /*config*/,
                                 const StrategyTask& task, const StrategyObserver& /*observer*/) {
  return StrategyResult{.state = task.start->clone(), .metrics = {}};
}

// Every worker trains on all rows, one after another: config.laps times around.
Result<StrategyResult> relay(StrategyContext& context, const Json& config, const StrategyTask& task,
                             const StrategyObserver& observer) {
  JsonObject fields(config, "config");
  const std::int64_t laps = fields.integer("laps", {1, 100});
  MUSTER_TRY_STATUS(fields.finish());
  StrategyResult result{.state = task.start->clone(), .metrics = {}};
  const TrainingPlan plan{
      .model = task.model, .settings = task.settings, .seed = task.seed, .data = task.data};
  for (std::int64_t i = 0; i < laps * context.num_workers(); ++i) {
    const std::int64_t worker = i % context.num_workers();
    MUSTER_TRY_STATUS(context.prepare(worker, plan, result.state));
    MUSTER_TRY(FitResult fitted, context.execute_on_worker(worker));
    result.state = std::move(fitted.state);
    result.metrics = std::move(fitted.metrics);
    result.steps += fitted.steps;
    if (observer.progress) observer.progress({.steps_done = result.steps});
  }
  result.report = {{"laps", laps}};
  return result;
}

TEST(CoordinatorRegistry, RunsTheCoordinatorOfTheJobsNameWithItsConfig) {
  const Problem problem;
  CoordinatorRegistry registry;
  ASSERT_TRUE(registry.add("relay", relay));
  ASSERT_TRUE(registry.add("nothing", give_back));
  const auto context = strategies::workers(2);
  std::int64_t seen = 0;
  const auto result =
      fit(*context, Custom{"relay", {{"laps", 3}}}, problem.task,
          {.progress = [&](const FitProgress& now) { seen = now.steps_done; }}, &registry);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->steps, 6 * 15);
  EXPECT_EQ(seen, 6 * 15);
  EXPECT_EQ(result->report, Json({{"laps", 3}}));
  EXPECT_GT(result->bytes_moved, 0U);
  const auto nothing = fit(*context, Custom{"nothing"}, problem.task, {}, &registry);
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(nothing->state == problem.start);
}

TEST(CoordinatorRegistry, AConfigThatTheCoordinatorRefusesIsItsError) {
  const Problem problem;
  CoordinatorRegistry registry;
  ASSERT_TRUE(registry.add("relay", relay));
  const auto result =
      fit(*strategies::workers(1), Custom{"relay", {{"lapse", 3}}}, problem.task, {}, &registry);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, AllOf(HasSubstr("coordinator relay"), HasSubstr("config")));
}

TEST(CoordinatorRegistry, AnUnknownNameIsRefusedListingTheKnown) {
  const Problem problem;
  CoordinatorRegistry registry;
  const auto context = strategies::workers(1);
  const auto refusal = [&](const CoordinatorRegistry* known) {
    const auto result = fit(*context, Custom{"swarm"}, problem.task, {}, known);
    EXPECT_FALSE(result);
    EXPECT_EQ(result.error().reason, "unknown_coordinator");
    return result.error().message;
  };
  EXPECT_THAT(refusal(nullptr), AllOf(HasSubstr("\"swarm\""), HasSubstr("none are")));
  ASSERT_TRUE(registry.add("relay", relay));
  ASSERT_TRUE(registry.add("nothing", give_back));
  EXPECT_THAT(refusal(&registry), AllOf(HasSubstr("\"swarm\""), HasSubstr("nothing, relay are")));
  EXPECT_THAT(registry.names(), ElementsAre("nothing", "relay"));
}

TEST(CoordinatorRegistry, RefusesANameThatIsNoneOrTakenAndNoFunction) {
  CoordinatorRegistry registry;
  EXPECT_EQ(registry.add("no name", give_back).error().reason, "bad_name");
  EXPECT_EQ(registry.add("empty", {}).error().reason, "no_function");
  ASSERT_TRUE(registry.add("relay", relay));
  EXPECT_EQ(registry.add("relay", give_back).error().code, ErrorCode::kAlreadyExists);
  EXPECT_THAT(registry.names(), ElementsAre("relay"));
}

TEST(CoordinatorRegistry, WhatACoordinatorThrowsIsAnError) {
  const Problem problem;
  CoordinatorRegistry registry;
  ASSERT_TRUE(registry.add("thrower", [](auto&&...) -> Result<StrategyResult> {
    throw std::runtime_error("out of luck");
  }));
  ASSERT_TRUE(registry.add("oddity", [](auto&&...) -> Result<StrategyResult> { throw 7; }));
  const auto context = strategies::workers(1);
  const auto result = fit(*context, Custom{"thrower"}, problem.task, {}, &registry);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message,
              AllOf(HasSubstr("coordinator thrower"), HasSubstr("out of luck")));
  EXPECT_EQ(fit(*context, Custom{"oddity"}, problem.task, {}, &registry).error().code,
            ErrorCode::kInternal);
}

TEST(CoordinatorRegistry, AResultThatIsNoStateOfTheModelIsRefused) {
  const Problem problem;
  CoordinatorRegistry registry;
  ASSERT_TRUE(registry.add("stranger", [](auto&&...) -> Result<StrategyResult> {
    return StrategyResult{.state = StateDict(*StateLayout::create({{"w", {2}}})), .metrics = {}};
  }));
  ASSERT_TRUE(registry.add("diverger", [&](auto&&...) -> Result<StrategyResult> {
    StrategyResult result{.state = problem.start.clone(), .metrics = {}};
    result.state.values()[0] = std::numeric_limits<float>::quiet_NaN();
    return result;
  }));
  const auto context = strategies::workers(1);
  EXPECT_EQ(fit(*context, Custom{"stranger"}, problem.task, {}, &registry).error().reason,
            "bad_result");
  EXPECT_EQ(fit(*context, Custom{"diverger"}, problem.task, {}, &registry).error().reason,
            "non_finite");
}

}  // namespace
}  // namespace muster
