#include "core/aggregate/distance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/tensor/kernels/kernels.h"
#include "tests/core/aggregate/devices.h"

namespace muster {
namespace {

class Distance : public testing::Test {
 protected:
  void make(std::int64_t rows, std::int64_t elements, int low = -3, int high = 3,
            std::uint64_t seed = 1) {
    states_.clear();
    Random random(seed);
    const LayoutPtr layout = *StateLayout::create({{"w", {elements}}});
    for (std::int64_t row = 0; row < rows; ++row) {
      states_.push_back(aggregating::random_state(layout, random, low, high));
    }
  }

  std::vector<Contribution> contributions() const {
    std::vector<Contribution> all;
    for (const StateDict& state : states_) {
      all.push_back({.contributor = std::to_string(all.size()), .values = view_of(state)});
    }
    return all;
  }

  double exact(std::size_t i, std::size_t j) const {
    long double sum = 0;
    for (std::size_t k = 0; k < states_[i].values().size(); ++k) {
      const long double difference =
          static_cast<long double>(states_[i].values()[k]) - states_[j].values()[k];
      sum += difference * difference;
    }
    return static_cast<double>(sum);
  }

  void expect_exact(double bound = 1e-6) const {
    const std::size_t n = states_.size();
    const std::vector<double> got = squared_distances(contributions(), nullptr);
    ASSERT_EQ(got.size(), n * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const double want = i == j ? 0 : exact(i, j);
        ASSERT_NEAR(got[i * n + j], want, bound * want) << i << ", " << j << " of " << n;
        ASSERT_EQ(got[i * n + j], got[j * n + i]);
      }
    }
  }

  std::vector<StateDict> states_;
};

TEST_F(Distance, IsRightToAMillionthForAnyNumberOfRowsAndElements) {
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 7, 8, 9, 13}) {
    for (const std::int64_t elements : {1, 7, 127, 128, 129, 511, 512, 513, 2047, 2049, 5000}) {
      make(rows, elements);
      expect_exact();
    }
  }
}

TEST_F(Distance, DoesNotCancelWhereModelsAreNearlyEqual) {
  make(4, 3000);
  for (std::size_t i = 1; i < 4; ++i) {
    std::ranges::copy(states_[0].values(), states_[i].values().begin());
    for (std::size_t k = 0; k < 3000; k += 2 * i) {
      float& value = states_[i].values()[k];
      value = std::nextafter(value, 10.0F);
    }
  }
  expect_exact();
}

TEST_F(Distance, HasRoomForTheLargestAndTheSmallestValues) {
  for (const int exponent : {127, 100, 63, -60, -63, -70, -126}) {
    make(5, 2100, exponent - 1, exponent);
    expect_exact();
  }
  make(6, 2100, -125, 126);
  expect_exact();
  make(3, 600);
  for (std::size_t i = 0; i < 3; ++i) {
    for (float& value : states_[i].values()) {
      value = static_cast<float>(i) * std::numeric_limits<float>::denorm_min();
    }
  }
  states_[2].values()[599] = -std::numeric_limits<float>::max();
  states_[1].values()[599] = std::numeric_limits<float>::max();
  expect_exact();
}

TEST_F(Distance, OfEqualUpdatesIsExactlyZero) {
  make(6, 3000);
  for (std::size_t i : {2U, 5U})
    std::ranges::copy(states_[0].values(), states_[i].values().begin());
  const auto distances = squared_distances(contributions(), nullptr);
  EXPECT_EQ(distances[2], 0);
  EXPECT_EQ(distances[5], 0);
  EXPECT_EQ(distances[2 * 6 + 5], 0);
  for (std::size_t j : {1U, 3U, 4U}) {
    EXPECT_EQ(distances[j], distances[2 * 6 + j]);
    EXPECT_EQ(distances[j], distances[5 * 6 + j]);
  }
}

TEST_F(Distance, HasEqualBitsInAnyOrderAndWithAnyNumberOfWorkers) {
  struct Size {
    std::int64_t rows;
    std::int64_t elements;
  };
  for (const Size size : {Size{5, 100'000}, {30, 20'000}, {101, 9000}, {515, 2100}}) {
    make(size.rows, size.elements, -20, 20);
    const auto n = static_cast<std::size_t>(size.rows);
    const std::vector<Contribution> all = contributions();
    const std::vector<double> want = squared_distances(all, nullptr);
    std::vector<std::size_t> order(n);
    for (std::size_t i = 0; i < n; ++i) order[i] = i;
    Random random(3);
    for (const int count : {1, 2, 3}) {
      Workers workers(count);
      random.shuffle(order);
      std::vector<Contribution> shuffled;
      for (const std::size_t i : order) shuffled.push_back(all[i]);
      const std::vector<double> got = squared_distances(shuffled, &workers);
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          ASSERT_EQ(got[i * n + j], want[order[i] * n + order[j]]) << n << " rows";
        }
      }
    }
  }
}

TEST_F(Distance, IsNotFiniteWhereAValueIsNot) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    make(5, 700);
    states_[3].values()[699] = bad;
    states_[1].values()[699] = bad;  // also where both have it
    const auto distances = squared_distances(contributions(), nullptr);
    for (std::size_t i = 0; i < 5; ++i) {
      for (std::size_t j = 0; j < 5; ++j) {
        const bool touched = i != j && (i == 1 || i == 3 || j == 1 || j == 3);
        EXPECT_EQ(std::isfinite(distances[i * 5 + j]), !touched) << i << ", " << j;
      }
    }
  }
}

// The kernels of one processor must agree, but for the baseline's separate roundings.
TEST(SquaredDifferences, HaveEqualBitsOnAllInstructionSetsWithFusedMultiplyAdds) {
  Random random(1);
  for (const std::int64_t n : {1, 100, 128, 300, 512}) {
    std::vector<std::vector<float>> rows(8);
    std::vector<const float*> at;
    for (auto& row : rows) {
      for (std::int64_t i = 0; i < n; ++i) row.push_back(aggregating::random_float(random, -9, 9));
      at.push_back(row.data());
    }
    std::vector<double> fused;
    for (const kernels::Table* const* table = kernels::available(); *table != nullptr; ++table) {
      std::vector<double> sums(16);
      (*table)->squared_differences(n, at.data(), at.data() + 4, sums.data());
      std::vector<double> turned(16);
      (*table)->squared_differences(n, at.data() + 4, at.data(), turned.data());
      if ((*table)->fused && fused.empty()) fused = sums;
      for (std::size_t pair = 0; pair < 16; ++pair) {
        const double want = (*table)->squared_difference(n, at[pair / 4], at[4 + pair % 4]);
        EXPECT_NEAR(sums[pair], want, 1e-6 * want) << (*table)->name;
        EXPECT_EQ(sums[pair], turned[pair % 4 * 4 + pair / 4]) << (*table)->name;
        if ((*table)->fused) {
          EXPECT_EQ(sums[pair], fused[pair]) << (*table)->name;
        }
      }
    }
  }
}

TEST_F(Distance, OfAChangeIsItsNormForStatesAndDeltas) {
  for (const std::int64_t elements : {1, 2048, 2049, 40'000}) {
    make(4, elements, -60, 60);
    std::vector<Contribution> all = contributions();
    all.pop_back();
    const StateDict& global = states_[3];
    const StateDict zero(global.layout_ptr());
    const auto of_states = change_norms(all, UpdateContent::kState, global, nullptr);
    const auto of_deltas = change_norms(all, UpdateContent::kDelta, global, nullptr);
    EXPECT_EQ(of_deltas, change_norms(all, UpdateContent::kState, zero, nullptr));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_DOUBLE_EQ(of_states[i], std::sqrt(exact(i, 3)));
      for (const int count : {2, 3}) {
        Workers workers(count);
        EXPECT_EQ(change_norms(all, UpdateContent::kState, global, &workers), of_states);
      }
    }
  }
}

TEST_F(Distance, OfAChangeHasRoomForTheLargestValuesAndIsNaNWhereAValueIsNotFinite) {
  make(3, 100);
  for (float& value : states_[0].values()) value = std::numeric_limits<float>::max();
  for (float& value : states_[2].values()) value = -std::numeric_limits<float>::max();
  states_[1].values()[50] = std::numeric_limits<float>::infinity();
  const auto norms = change_norms(contributions(), UpdateContent::kState, states_[2], nullptr);
  EXPECT_DOUBLE_EQ(norms[0], 20.0 * std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isnan(norms[1]));
  EXPECT_EQ(norms[2], 0);
}

}  // namespace
}  // namespace muster
