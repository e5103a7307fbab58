#include "core/strategy/executors/population_based.h"

#include <gmock/gmock.h>

#include <atomic>
#include <set>

#include "core/train/evaluate.h"
#include "tests/core/strategy/strategy_support.h"

namespace muster {
namespace {

using strategies::must_fit;
using strategies::Problem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

PopulationBased population_of(std::int64_t members, std::int64_t generations = 3) {
  return {.population_size = members,
          .generations = generations,
          .steps = 4,
          .search_space = {{"optimizer.lr", LogUniform{1e-4, 1}},
                           {"optimizer.momentum", Uniform{0, 0.9}}},
          .exploit = {},
          .explore = {}};
}

// A line that is fitted: with a rate of a million it diverges.
Json regression() {
  return training::model_with({{{"id", "fc1"}, {"op", "dense"}, {"units", 1}}}, {{"type", "mse"}});
}
PopulationBased half_broken() {
  PopulationBased strategy = population_of(6);
  strategy.steps = 12;
  strategy.search_space = {{"optimizer.lr", Choice{{0.05, 1e6}}}};
  return strategy;
}

// What the run was, without who did it.
Json story_of(const StrategyResult& result) {
  Json story = result.report;
  story.erase("workers");
  story.erase("lost");
  return story;
}

TEST(PopulationBasedFit, DependsOnTheSeedAndNotOnTheWorkers) {
  for (const bool broken : {false, true}) {
    const PopulationBased strategy = broken ? half_broken() : population_of(5);
    Problem problem(Json::object(), broken ? regression() : strategies::plain_model());
    const auto alone = strategies::workers(1);
    const StrategyResult wanted = must_fit(*alone, strategy, problem.task);
    EXPECT_EQ(wanted.steps, 3 * strategy.steps);
    EXPECT_TRUE(wanted.complete);
    for (const std::int64_t count : {2, 3, 8}) {
      const auto context = strategies::workers(count);
      const StrategyResult result = must_fit(*context, strategy, problem.task);
      EXPECT_TRUE(result.state == wanted.state) << count << " workers";
      EXPECT_EQ(story_of(result), story_of(wanted)) << count << " workers";
      EXPECT_EQ(result.metrics, wanted.metrics);
    }
    problem.task.seed += 1;
    EXPECT_NE(story_of(must_fit(*alone, strategy, problem.task)), story_of(wanted));
  }
}

TEST(PopulationBasedFit, TheResultIsTheBestMemberAndItsScoreIsThatOfTheHeldOutRows) {
  const Problem problem;
  const auto context = strategies::workers(2);
  const StrategyResult result = must_fit(*context, population_of(4), problem.task);
  const auto measured = evaluate(problem.graph, result.state, problem.task.data.holdout);
  ASSERT_TRUE(measured);
  const Json& best = result.report.at("best");
  EXPECT_EQ(best.at("score"), measured->metrics.at("accuracy"));
  EXPECT_EQ(best.at("holdout"), Json(measured->metrics));
  const Json& scores = result.report.at("generations")[2].at("scores");
  ASSERT_THAT(scores, SizeIs(4));
  for (const Json& score : scores) EXPECT_LE(score.get<double>(), best.at("score").get<double>());
  EXPECT_EQ(scores[best.at("member").get<std::size_t>()], best.at("score"));
  EXPECT_GT(best.at("score").get<double>(), 0.9) << "it learns";
}

TEST(PopulationBasedFit, WithoutAnAccuracyTheScoreIsMinusTheLoss) {
  const Problem values(Json::object(), regression());
  const auto context = strategies::workers(2);
  const StrategyResult result = must_fit(*context, population_of(3), values.task);
  const auto measured = evaluate(values.graph, result.state, values.task.data.holdout);
  ASSERT_TRUE(measured);
  EXPECT_EQ(result.report.at("best").at("score"), -measured->metrics.at("loss"));
}

TEST(PopulationBasedFit, TellsEachGenerationAndTheAncestryIsMadeOfThem) {
  const Problem problem;
  const auto context = strategies::workers(2);
  std::vector<LineageEntry> all;
  std::vector<std::int64_t> generations;
  std::vector<std::int64_t> steps;
  const StrategyResult result =
      must_fit(*context, population_of(6, 5), problem.task,
               {.progress = [&](const FitProgress& now) { steps.push_back(now.steps_done); },
                .generation =
                    [&](const PopulationGeneration& now) {
                      generations.push_back(now.generation);
                      EXPECT_EQ(now.generations, 5);
                      EXPECT_THAT(now.members, SizeIs(6));
                      all.insert(all.end(), now.lineage.begin(), now.lineage.end());
                    }});
  EXPECT_THAT(generations, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(steps, ElementsAre(4, 8, 12, 16, 20));
  ASSERT_THAT(all, SizeIs(30));
  Json wanted = Json::array();
  const auto best = result.report.at("best").at("member").get<std::int64_t>();
  for (const LineageEntry& entry : ancestry(all, 5, best)) wanted.push_back(to_json(entry));
  EXPECT_EQ(result.report.at("ancestry"), wanted);
  ASSERT_THAT(wanted, SizeIs(5));
  EXPECT_EQ(wanted.back().at("hyperparameters"), result.report.at("best").at("hyperparameters"));
  std::set<std::pair<std::int64_t, std::int64_t>> copied;
  for (const LineageEntry& entry : all) {
    if (entry.parent != entry.member) copied.insert({entry.generation, entry.member});
  }
  EXPECT_GE(copied.size(), 4U) << "in each generation but the first the worst copies";
}

// A member's training is a TrainingRun of its own settings from its parent's state.
TEST(PopulationBasedFit, AGenerationOfOneMemberIsATrainingRun) {
  const Problem problem(Json{{"optimizer", {{"lr", 0.3}, {"momentum", 0.5}}}});
  PopulationBased strategy = population_of(1, 1);
  strategy.steps = 7;
  strategy.search_space = {{"optimizer.momentum", Choice{{0.9}}}};
  const auto context = strategies::workers(1);
  const StrategyResult result = must_fit(*context, strategy, problem.task);
  EXPECT_EQ(result.steps, 7);
  EXPECT_EQ(result.report.at("best").at("hyperparameters"), Json({{"optimizer.momentum", 0.9}}));
  Problem same(
      Json{{"optimizer", {{"lr", 0.3}, {"momentum", 0.9}}}, {"epochs", 7}, {"max_steps", 7}});
  same.task.seed = derive_seed(problem.task.seed, {"population", "train", "0", "0"});
  EXPECT_TRUE(result.state == same.trained().state);
}

TEST(PopulationBasedFit, EveryFieldChangesWhatHappens) {
  const Problem problem(Json::object(), regression());
  const auto context = strategies::workers(2);
  PopulationBased strategy = population_of(6, 4);
  strategy.search_space["optimizer.lr"] = LogUniform{1e-4, 0.03};
  const Json wanted = story_of(must_fit(*context, strategy, problem.task));
  const std::vector<std::pair<std::string, std::function<void(PopulationBased&)>>> changes{
      {"population_size", [](auto& s) { s.population_size = 7; }},
      {"generations", [](auto& s) { s.generations = 5; }},
      {"steps", [](auto& s) { s.steps = 5; }},
      {"search_space", [](auto& s) { s.search_space.erase("optimizer.momentum"); }},
      {"exploit.method", [](auto& s) { s.exploit.method = ExploitSettings::Method::kBinary; }},
      {"exploit.fraction", [](auto& s) { s.exploit.fraction = 0.5; }},
      {"exploit.copy_hyperparameters", [](auto& s) { s.exploit.copy_hyperparameters = false; }},
      {"explore.method", [](auto& s) { s.explore.method = ExploreSettings::Method::kResample; }},
      {"explore.factor", [](auto& s) { s.explore.factor = 3; }}};
  for (const auto& [field, change] : changes) {
    PopulationBased other = strategy;
    change(other);
    EXPECT_NE(story_of(must_fit(*context, other, problem.task)), wanted) << field;
  }
  PopulationBased binary = strategy;
  binary.exploit = {.method = ExploitSettings::Method::kBinary, .threshold = 0};
  PopulationBased never = binary;
  never.exploit.threshold = 1e9;
  const Json alone = story_of(must_fit(*context, never, problem.task));
  EXPECT_NE(alone, story_of(must_fit(*context, binary, problem.task)));
  for (const Json& entry : alone.at("ancestry")) EXPECT_EQ(entry.at("member"), entry.at("parent"));
}

// ---- Members and workers that fail ----

TEST(PopulationBasedFit, AMemberThatDivergesScoresMinusInfinityAndIsReplaced) {
  const Problem problem(Json::object(), regression());
  const auto context = strategies::workers(2);
  std::vector<PopulationGeneration> told;
  const StrategyResult result =
      must_fit(*context, half_broken(), problem.task,
               {.generation = [&](const PopulationGeneration& now) { told.push_back(now); }});
  ASSERT_THAT(told, SizeIs(3));
  std::int64_t failed = 0;
  const auto works = [](const Member& member) { return member.failure.empty(); };
  for (std::size_t i = 0; i < told[0].members.size(); ++i) {
    const Member& member = told[0].members[i];
    if (works(member)) continue;
    ++failed;
    EXPECT_EQ(member.score, -std::numeric_limits<double>::infinity());
    EXPECT_THAT(member.failure, AllOf(HasSubstr("step "), ::testing::Not(HasSubstr("worker"))));
    const std::int64_t parent = told[1].lineage[i].parent;
    EXPECT_TRUE(works(told[0].members[static_cast<std::size_t>(parent)]));
    const Json& summary = result.report.at("generations")[0];
    EXPECT_TRUE(summary.at("scores")[i].is_null());
    EXPECT_EQ(summary.at("failures").at(std::to_string(i)), member.failure);
  }
  EXPECT_GT(failed, 0);
  EXPECT_LT(failed, 6);
}

// Settings that do not go together are the member's failure too.
TEST(PopulationBasedFit, AMemberWhoseSettingsAreRefusedFails) {
  const Problem problem(Json{{"batch_size", 8}});
  PopulationBased strategy = population_of(6, 2);
  strategy.search_space = {{"batch_size", Choice{{8, 7.5}}}};
  const auto context = strategies::workers(2);
  const StrategyResult result = must_fit(*context, strategy, problem.task);
  EXPECT_THAT(result.report.at("generations")[0].at("failures").dump(),
              HasSubstr("local.batch_size"));
  EXPECT_EQ(result.report.at("best").at("hyperparameters").at("batch_size"), 8);
}

TEST(PopulationBasedFit, WhenAllFailTheErrorHasTheFirstReason) {
  const Problem problem(Json::object(), regression());
  PopulationBased strategy = half_broken();
  strategy.search_space = {{"optimizer.lr", Choice{{1e6}}}};
  const auto context = strategies::workers(2);
  const auto result = fit(*context, strategy, problem.task);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().reason, "all_failed");
  EXPECT_THAT(result.error().message, AllOf(HasSubstr("member 0: "), HasSubstr("step ")));
}

TEST(PopulationBasedFit, ALostWorkersMembersGoToTheOthers) {
  const Problem problem;
  const StrategyResult wanted = must_fit(*strategies::workers(1), population_of(5), problem.task);
  for (const WorkerOperation operation :
       {WorkerOperation::kPrepare, WorkerOperation::kStep, WorkerOperation::kEvaluate}) {
    std::atomic<int> left = 3;
    const auto context =
        strategies::workers(3, {.lose = [&](std::int64_t worker, WorkerOperation what) {
                              return worker == 1 && what == operation && --left == 0;
                            }});
    const StrategyResult result = must_fit(*context, population_of(5), problem.task);
    if (!context->is_lost(1)) continue;  // the others were quicker
    EXPECT_TRUE(result.state == wanted.state);
    EXPECT_EQ(story_of(result), story_of(wanted));
    EXPECT_THAT(result.report.at("lost"), ElementsAre("worker-1"));
    EXPECT_THAT(result.report.at("workers"), ElementsAre("worker-0", "worker-2"));
  }
}

// Loses every worker in the second generation's work; `limit` steps are done before it.
struct Dying {
  std::atomic<int> steps = 0;
  bool operator()(std::int64_t /*worker*/, WorkerOperation what) {
    return what == WorkerOperation::kStep && ++steps > 5 * 4 + 2;
  }
};

TEST(PopulationBasedFit, UnderTheMinimumItEndsAndHandsBackTheBestOfTheLastGeneration) {
  const Problem problem;
  PopulationBased one = population_of(5, 1);
  const StrategyResult first = must_fit(*strategies::workers(1), one, problem.task);
  Dying dying;
  const auto context = strategies::workers(2, {.lose = std::ref(dying)});
  PopulationBased strategy = population_of(5, 3);
  strategy.min_workers = 2;
  std::optional<StrategyResult> last;
  const auto result =
      fit(*context, strategy, problem.task, {.interrupted = [&](const StrategyResult& so_far) {
        last = StrategyResult{.state = so_far.state.clone(),
                              .metrics = so_far.metrics,
                              .steps = so_far.steps,
                              .complete = so_far.complete,
                              .report = so_far.report};
      }});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().reason, "worker_lost");
  EXPECT_THAT(result.error().message,
              AllOf(HasSubstr("worker worker-"), HasSubstr("at least 2 are wanted")));
  ASSERT_TRUE(last);
  EXPECT_EQ(last->steps, 4);
  EXPECT_FALSE(last->complete);
  EXPECT_TRUE(last->state == first.state);
  EXPECT_EQ(last->report.at("best"), first.report.at("best"));
  StrategyTask rest = problem.task;
  rest.start = &last->state;
  rest.steps_done = last->steps;
  const StrategyResult resumed = must_fit(*strategies::workers(2), strategy, rest);
  EXPECT_EQ(resumed.steps, 12);
  EXPECT_THAT(resumed.report.at("generations"), SizeIs(2));
}

TEST(PopulationBasedFit, EndsBetweenGenerationsWhenTheTimeIsUp) {
  Problem problem(Json{{"max_seconds", 10}});
  auto now = std::chrono::steady_clock::time_point{};
  problem.task.clock = [&] { return now; };
  const auto context = strategies::workers(2);
  const StrategyResult result =
      must_fit(*context, population_of(4), problem.task,
               {.generation = [&](const PopulationGeneration& generation) {
                 if (generation.generation == 2) now += std::chrono::seconds(10);
               }});
  EXPECT_EQ(result.steps, 8);
  EXPECT_FALSE(result.complete);
}

TEST(PopulationBasedFit, RefusesWhatCannotRun) {
  Problem problem;
  const auto refusal = [&](const PopulationBased& strategy) {
    const auto result = fit(*strategies::workers(2), strategy, problem.task);
    EXPECT_FALSE(result);
    return result ? "" : result.error().message;
  };
  PopulationBased strategy = population_of(4);
  strategy.min_workers = 3;
  EXPECT_THAT(refusal(strategy), AllOf(HasSubstr("at least 3 workers"), HasSubstr("there are 2")));
  strategy = population_of(4);
  strategy.search_space["optimizer.speed"] = Uniform{};
  EXPECT_THAT(refusal(strategy), AllOf(HasSubstr("search_space"), HasSubstr("optimizer.speed")));
  strategy = population_of(4);
  strategy.search_space["optimizer.type"] = Uniform{};
  EXPECT_THAT(refusal(strategy), HasSubstr("a number is wanted"));
  for (const char* path : {"epochs", "max_steps", "max_seconds"}) {
    strategy = population_of(4);
    strategy.search_space[path] = IntegerRange{1, 2};
    EXPECT_THAT(refusal(strategy), HasSubstr(std::string("\"") + path + "\" cannot be searched"));
  }
  EXPECT_THAT(refusal(population_of(1001, 1000)), HasSubstr("1001 members in 1000 generations"));
  problem.task.data.holdout = {};
  EXPECT_THAT(refusal(population_of(4)), HasSubstr("0 held-out rows"));
}

}  // namespace
}  // namespace muster
