#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/aggregate/robust/geometric_median.h"
#include "core/aggregate/robust/krum.h"
#include "core/aggregate/robust/robust_rules.h"
#include "tests/core/aggregate/devices.h"

namespace muster {
namespace {

// Squared distances of points with few different coordinates, so with many ties.
std::vector<double> distances_of(std::int64_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> points;
  for (std::int64_t i = 0; i < n; ++i) points.push_back(static_cast<double>(random.below(12)));
  std::vector<double> distances;
  for (const double a : points) {
    for (const double b : points) distances.push_back((a - b) * (a - b));
  }
  return distances;
}

// One winner of Krum among those still there, by the words of the rule.
std::int64_t winner(const std::vector<double>& distances, std::int64_t n,
                    const std::vector<std::int64_t>& there, std::int64_t neighbours) {
  std::int64_t best = -1;
  double lowest = std::numeric_limits<double>::infinity();
  for (const std::int64_t i : there) {
    std::vector<double> others;
    for (const std::int64_t j : there) {
      if (j != i) others.push_back(distances[static_cast<std::size_t>(i * n + j)]);
    }
    std::sort(others.begin(), others.end());
    double score = 0;
    for (std::size_t k = 0; k < others.size() && k < static_cast<std::size_t>(neighbours); ++k) {
      score += others[k];
    }
    if (score < lowest) {
      lowest = score;
      best = i;
    }
  }
  return best;
}

TEST(KrumSelection, BulyanTakesTheWinnerOfThoseStillThereEachTime) {
  for (const std::int64_t f : {0, 1, 2, 5}) {
    for (const std::int64_t n : {4 * f + 3, 4 * f + 4, 4 * f + 20}) {
      const auto distances = distances_of(n, static_cast<std::uint64_t>(n));
      std::vector<std::int64_t> there;
      for (std::int64_t i = 0; i < n; ++i) there.push_back(i);
      std::vector<std::int64_t> want;
      while (static_cast<std::int64_t>(want.size()) < n - 2 * f) {
        const auto left = static_cast<std::int64_t>(there.size());
        want.push_back(winner(distances, n, there, std::max<std::int64_t>(1, left - f - 2)));
        std::erase(there, want.back());
      }
      for (const int count : {1, 2}) {
        Workers workers(count);
        EXPECT_EQ(bulyan_selection(distances, n, f, workers), want) << n << ", f " << f;
      }
    }
  }
}

TEST(KrumSelection, OfEqualScoresTakesTheLowerIndex) {
  EXPECT_EQ(lowest_scores(std::vector<double>{3, 1, 2, 1, 2}, 4),
            (std::vector<std::int64_t>{1, 3, 2, 4}));
}

TEST(TrimmedCount, IsTheFloorOfAProductThatIsNotHeldDownByRounding) {
  EXPECT_EQ(trimmed_count(0.3, 10), 3);
  EXPECT_EQ(trimmed_count(0.29, 100), 29);
  EXPECT_EQ(trimmed_count(0.25, 7), 1);
  EXPECT_EQ(trimmed_count(0.2499999, 8), 1);
  EXPECT_EQ(trimmed_count(0, 8), 0);
  for (std::int64_t percent = 0; percent < 50; ++percent) {
    EXPECT_EQ(trimmed_count(static_cast<double>(percent) / 100, 100), percent);
    EXPECT_EQ(trimmed_count(static_cast<double>(percent) / 100, 1'000'000), percent * 10'000);
  }
}

class GeometricMedianOf : public testing::Test {
 protected:
  void make(std::int64_t rows, std::int64_t elements) {
    Random random(2);
    const LayoutPtr layout = *StateLayout::create({{"w", {elements}}});
    for (std::int64_t row = 0; row < rows; ++row) {
      states_.push_back(aggregating::random_state(layout, random, -3, 3));
      contributions_.push_back(
          {.contributor = std::to_string(row), .values = view_of(states_.back())});
      weights_.push_back(static_cast<double>(1 + random.below(9)));
    }
    // The views above are of states that have moved since.
    for (std::size_t i = 0; i < states_.size(); ++i) contributions_[i].values = view_of(states_[i]);
  }

  std::vector<float> run(const WeiszfeldSettings& settings, int workers,
                         std::int64_t* iterations = nullptr) {
    Workers all(workers);
    std::vector<float> out(states_.front().values().size());
    const WeiszfeldResult result =
        geometric_median(rows_of(contributions_), weights_, settings, nullptr, out, all);
    EXPECT_TRUE(result.finite);
    if (iterations != nullptr) *iterations = result.iterations;
    return out;
  }

  // The iteration by its words, over whole vectors.
  std::vector<double> by_words(double nu, int iterations) const {
    std::vector<double> coefficients = weights_;
    std::vector<double> v;
    for (int i = 0;; ++i) {
      double sum = 0;
      for (const double coefficient : coefficients) sum += coefficient;
      v.assign(states_.front().values().size(), 0);
      for (std::size_t row = 0; row < states_.size(); ++row) {
        for (std::size_t k = 0; k < v.size(); ++k) {
          v[k] += coefficients[row] / sum * states_[row].values()[k];
        }
      }
      if (i == iterations) return v;
      for (std::size_t row = 0; row < states_.size(); ++row) {
        double square = 0;
        for (std::size_t k = 0; k < v.size(); ++k) {
          square += (states_[row].values()[k] - v[k]) * (states_[row].values()[k] - v[k]);
        }
        coefficients[row] = weights_[row] / std::max(nu, std::sqrt(square));
      }
    }
  }

  std::vector<StateDict> states_;
  std::vector<Contribution> contributions_;
  std::vector<double> weights_;
};

TEST_F(GeometricMedianOf, WholeModelsIsTheWeiszfeldIterationOnAnyNumberOfWorkers) {
  make(7, 70'001);
  const std::vector<float> once = run({.max_iterations = 4, .tolerance = 0}, 1);
  const std::vector<double> want = by_words(1e-6, 4);
  for (std::size_t k = 0; k < want.size(); ++k) ASSERT_NEAR(once[k], want[k], 1e-6);
  for (const int workers : {2, 3}) {
    EXPECT_EQ(run({.max_iterations = 4, .tolerance = 0}, workers), once);
  }
}

TEST_F(GeometricMedianOf, ManyModelsIsThatOfFew) {
  make(520, 5000);
  const std::vector<float> once = run({.max_iterations = 2, .tolerance = 0}, 1);
  const std::vector<double> want = by_words(1e-6, 2);
  for (std::size_t k = 0; k < want.size(); ++k) ASSERT_NEAR(once[k], want[k], 1e-6);
  EXPECT_EQ(run({.max_iterations = 2, .tolerance = 0}, 3), once);
}

TEST_F(GeometricMedianOf, ModelsEndsWhenNoCoefficientMoves) {
  make(9, 300);
  std::int64_t loose = 0;
  std::int64_t tight = 0;
  run({.max_iterations = 1000, .tolerance = 1e-2}, 1, &loose);
  const auto limit = run({.max_iterations = 1000, .tolerance = 1e-9}, 1, &tight);
  EXPECT_LT(loose, tight);
  EXPECT_LT(tight, 1000);
  const auto longer = run({.max_iterations = 1000, .tolerance = 0}, 1);
  for (std::size_t k = 0; k < limit.size(); ++k) EXPECT_NEAR(limit[k], longer[k], 1e-6);
}

TEST_F(GeometricMedianOf, ModelsFindsWhatIsNotFinite) {
  make(4, 5000);
  states_[2].values()[4999] = std::numeric_limits<float>::quiet_NaN();
  Workers workers;
  std::vector<float> out(5000);
  EXPECT_FALSE(
      geometric_median(rows_of(contributions_), weights_, {}, nullptr, out, workers).finite);
}

}  // namespace
}  // namespace muster
