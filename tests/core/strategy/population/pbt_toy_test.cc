#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/strategy/population/population.h"
#include "tests/support/vectors.h"

// The toy problem of Jaderberg et al. 2017, figure 2, as tests/vectors/pbt.json sets it: two
// workers maximise Q = 1.2 - (theta_0^2 + theta_1^2) by gradient ascent on a surrogate in which
// their hyperparameters weigh the two terms.
namespace muster {
namespace {

const std::vector<std::string> kKeys = {"h0", "h1"};
constexpr double kNever = std::numeric_limits<double>::infinity();

struct Toy {
  std::array<double, 2> theta = {0.9, 0.9};
  Hyperparameters h;

  double score() const { return 1.2 - (theta[0] * theta[0] + theta[1] * theta[1]); }
  void step(double lr) {
    for (std::size_t j = 0; j < 2; ++j) theta[j] -= 2 * lr * h.at(kKeys[j]) * theta[j];
  }
};

// How a run goes: who copies is up to `exploit` (with a threshold that is never exceeded: nobody),
// who changes hyperparameters and how to the other two.
struct Mode {
  ExploitSettings exploit;
  Explore explore;
  Explorers explorers = Explorers::kThoseThatCopied;
};

Hyperparameters keep(const Hyperparameters& h, Random& /*random*/) {
  return h;
}

ExploitSettings exploit(bool on, bool copy_hyperparameters) {
  return {.method = ExploitSettings::Method::kBinary,
          .threshold = on ? 1e-9 : kNever,
          .copy_hyperparameters = copy_hyperparameters};
}

std::vector<Succession> turn(std::vector<Toy>& toys, const Mode& mode, std::uint64_t seed) {
  std::vector<Member> members;
  for (const Toy& toy : toys) {
    members.push_back({.id = static_cast<std::int64_t>(members.size()),
                       .score = toy.score(),
                       .hyperparameters = toy.h});
  }
  const auto next = next_generation(members, mode.exploit, mode.explore, mode.explorers, seed);
  EXPECT_TRUE(next.has_value());
  const std::vector<Toy> before = toys;
  for (std::size_t i = 0; i < toys.size(); ++i) {
    toys[i].theta = before[static_cast<std::size_t>((*next)[i].parent)].theta;
    toys[i].h = (*next)[i].hyperparameters;
  }
  return *next;
}

Mode mode_of(const Json& test) {
  const auto name = test.at("mode").get<std::string>();
  const bool copies = name == "pbt" || name == "exploit_only";
  Mode mode{.exploit = exploit(copies, test.at("copy_hyper").get<bool>()),
            .explore = keep,
            .explorers = name == "explore_only" ? Explorers::kAll : Explorers::kThoseThatCopied};
  if (name == "pbt" || name == "explore_only") {
    // The next factor of the list for each in turn; at its end it starts again.
    mode.explore = [factors = test.at("factors").get<std::vector<double>>(), at = std::size_t{0}](
                       Hyperparameters h, Random& /*random*/) mutable {
      for (auto& [key, value] : h) value *= factors[at++ % factors.size()];
      return h;
    };
  }
  return mode;
}

void expect_record(const Json& record, const std::vector<Toy>& toys,
                   const std::vector<Succession>& turns, const vectors::Tolerance& allowed) {
  std::vector<double> theta;
  std::vector<double> h;
  std::vector<double> scores;
  std::vector<std::string> exploited;
  for (std::size_t i = 0; i < toys.size(); ++i) {
    theta.insert(theta.end(), toys[i].theta.begin(), toys[i].theta.end());
    for (const std::string& key : kKeys) h.push_back(toys[i].h.at(key));
    scores.push_back(toys[i].score());
    exploited.emplace_back(turns[i].parent == turns[i].member ? "kept" : "copied");
  }
  vectors::expect_close(theta, vectors::doubles(record.at("theta")), allowed);
  vectors::expect_close(h, vectors::doubles(record.at("h")), allowed);
  vectors::expect_close(scores, vectors::doubles(record.at("Q")), allowed);
  if (record.contains("exploit")) {
    EXPECT_EQ(Json(exploited), record.at("exploit"));
  }
}

TEST(PbtToy, RunsAsTheVectorsInEveryMode) {
  const Json file = vectors::load("pbt.json");
  std::size_t runs = 0;
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const Mode mode = mode_of(test);
    std::vector<Toy> toys(2);
    for (std::size_t i = 0; i < 2; ++i) {
      toys[i].theta = test.at("theta0").at(i).get<std::array<double, 2>>();
      for (std::size_t j = 0; j < 2; ++j) toys[i].h[kKeys[j]] = test.at("h0").at(i).at(j);
    }
    const Json& records = test.at("expected").at("records_first_four_and_last");
    std::size_t checked = 0;
    const int steps = test.at("steps").get<int>();
    for (int step = 1; step <= steps; ++step) {
      for (Toy& toy : toys) toy.step(test.at("lr").get<double>());
      if (step % test.at("ready_every").get<int>() != 0) continue;
      const auto turns = turn(toys, mode, 1);
      if (checked == records.size() || records.at(checked).at("step") != step) continue;
      SCOPED_TRACE(step);
      expect_record(records.at(checked++), toys, turns, vectors::tolerance(file, test));
    }
    EXPECT_EQ(checked, records.size());
    EXPECT_NEAR(std::max(toys[0].score(), toys[1].score()),
                test.at("expected").at("best_Q").get<double>(), 1e-6);
    ++runs;
  }
  EXPECT_EQ(runs, file.at("cases").size());
  EXPECT_GE(runs, 7U);
}

// The setting of random_exploration: the mean over 20 seeds of the best Q after 100 steps.
double mean_of_best(bool copies, bool explores) {
  Mode mode{.exploit = exploit(copies, false), .explore = keep, .explorers = Explorers::kAll};
  if (explores) {
    mode.explore = [](Hyperparameters h, Random& random) {
      for (auto& [key, value] : h) value = std::clamp(value + 0.1 * random.normal(), 0.0, 1.0);
      return h;
    };
  }
  constexpr int kSeeds = 20;
  double sum = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<Toy> toys = {{.h = {{"h0", 1}, {"h1", 0}}}, {.h = {{"h0", 0}, {"h1", 1}}}};
    for (int step = 1; step <= 100; ++step) {
      for (Toy& toy : toys) toy.step(0.05);
      if (step % 5 == 0) {
        (void)turn(toys, mode, derive_seed(seed, {"generation", std::to_string(step)}));
      }
    }
    sum += std::max(toys[0].score(), toys[1].score());
  }
  return sum / kSeeds;
}

TEST(PbtToy, OnlyExploitAndExploreTogetherReachTheTop) {
  const double pbt = mean_of_best(true, true);
  const double explore_only = mean_of_best(false, true);
  RecordProperty("pbt", std::to_string(pbt));
  RecordProperty("explore_only", std::to_string(explore_only));
  EXPECT_GT(pbt, 1.19);
  EXPECT_LT(explore_only, 1.19);
  EXPECT_GT(explore_only, 0.9);  // it does explore
  EXPECT_NEAR(mean_of_best(true, false), 0.39, 1e-6);
  EXPECT_NEAR(mean_of_best(false, false), 0.39, 1e-6);
}

}  // namespace
}  // namespace muster
