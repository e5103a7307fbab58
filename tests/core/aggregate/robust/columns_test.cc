#include "core/aggregate/robust/columns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/aggregate/robust/sorting_network.h"
#include "tests/core/aggregate/devices.h"

namespace muster {
namespace {

using aggregating::bits_of;

std::vector<const kernels::Table*> tables() {
  std::vector<const kernels::Table*> all;
  for (const kernels::Table* const* table = kernels::available(); *table != nullptr; ++table) {
    all.push_back(*table);
  }
  return all;
}

// Models side by side, with ties, zeros of both signs and magnitudes of 2^+-widest.
class Models {
 public:
  Models(std::int64_t rows, std::int64_t columns, std::uint64_t seed, int widest = 100)
      : layout_(*StateLayout::create({{"w", {columns}}})) {
    Random random(seed);
    for (std::int64_t row = 0; row < rows; ++row) {
      states_.push_back(aggregating::random_state(layout_, random, -widest, widest));
      for (float& value : states_.back().values()) {
        if (random.below(3) == 0) value = static_cast<float>(random.below(3)) - 1;
      }
    }
    for (const StateDict& state : states_) {
      contributions_.push_back(
          {.contributor = std::to_string(states_.size()), .values = view_of(state)});
    }
  }
  std::int64_t count() const { return static_cast<std::int64_t>(states_.size()); }
  StateDict& operator[](std::size_t row) { return states_[row]; }
  Rows rows() const { return rows_of(contributions_); }
  std::size_t columns() const { return states_.front().values().size(); }
  std::vector<double> sorted_column(std::size_t column) const {
    std::vector<double> values;
    for (const StateDict& state : states_) values.push_back(state.values()[column]);
    std::sort(values.begin(), values.end());
    return values;
  }

 private:
  LayoutPtr layout_;
  std::vector<StateDict> states_;
  std::vector<Contribution> contributions_;
};

// The rule by its words.
double mean_by_rule(const std::vector<double>& sorted, const ColumnRule& rule) {
  std::vector<double> chosen(sorted.begin() + rule.first, sorted.begin() + rule.last);
  if (rule.near > 0) {
    const double median = (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
    chosen = sorted;
    std::stable_sort(chosen.begin(), chosen.end(), [&](double a, double b) {
      return std::abs(a - median) < std::abs(b - median);
    });
    chosen.resize(static_cast<std::size_t>(rule.near));
    std::sort(chosen.begin(), chosen.end());
  }
  return std::accumulate(chosen.begin(), chosen.end(), 0.0) / static_cast<double>(chosen.size());
}

std::vector<ColumnRule> rules_for(std::int64_t n) {
  std::vector<ColumnRule> rules = {ColumnRule::median(n), ColumnRule::trimmed_mean(n, 0),
                                   ColumnRule::trimmed_mean(n, (n - 1) / 4),
                                   ColumnRule::trimmed_mean(n, (n - 1) / 2)};
  if (n >= 3) rules.push_back(ColumnRule::near_median(n - 2 * ((n - 3) / 4)));
  return rules;
}

void expect_rule(const Models& models, const ColumnRule& rule, const kernels::Table& table) {
  const std::int64_t n = models.count();
  const auto columns = static_cast<std::int64_t>(models.columns());
  const auto network =
      rule.near > 0 ? sorting_network(n, 0, n) : sorting_network(n, rule.first, rule.last);
  std::vector<const float*> from;
  for (const UpdateValues* row : models.rows()) from.push_back(row->read(0, columns, nullptr));
  std::vector<float> strip(static_cast<std::size_t>(n * kernels::kSortStrip));
  std::vector<double> means(models.columns() + 1, -7);
  ASSERT_TRUE(table.sorted_columns({.rows = n,
                                    .columns = columns,
                                    .from = from.data(),
                                    .num_comparators = static_cast<std::int64_t>(network.size()),
                                    .comparators = network.data(),
                                    .first = rule.first,
                                    .last = rule.last,
                                    .near = rule.near,
                                    .strip = strip.data(),
                                    .y = means.data()}));
  EXPECT_EQ(means.back(), -7);
  for (std::size_t j = 0; j < models.columns(); ++j) {
    EXPECT_EQ(means[j], mean_by_rule(models.sorted_column(j), rule))
        << table.name << ", " << n << " rows, column " << j << ", near " << rule.near;
  }
}

TEST(SortedColumns, AreThoseOfSortOnEveryInstructionSetAndNumberOfRows) {
  std::vector<std::int64_t> counts(40);
  std::iota(counts.begin(), counts.end(), 1);
  counts.insert(counts.end(), {63, 64, 65, 100, 127, 128, 129, 200});
  for (const std::int64_t n : counts) {
    const Models models(n, 37, static_cast<std::uint64_t>(n));
    // Narrow enough for distances from the median to be exact in double.
    const Models narrow(n, 37, static_cast<std::uint64_t>(n), 10);
    for (const ColumnRule& rule : rules_for(n)) {
      for (const kernels::Table* table : tables()) {
        expect_rule(rule.near > 0 ? narrow : models, rule, *table);
      }
    }
  }
}

TEST(SortedColumns, OfAnyWidthAreThoseOfSort) {
  for (const std::int64_t columns : {1, 3, 15, 16, 17, 31, 32, 33, 48, 100}) {
    const Models models(10, columns, static_cast<std::uint64_t>(columns));
    for (const kernels::Table* table : tables()) {
      expect_rule(models, ColumnRule::median(10), *table);
    }
  }
}

TEST(SortedColumns, FindWhatIsNotFiniteInAnyPlace) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    for (const std::size_t place : {0U, 15U, 16U, 34U}) {
      Models models(5, 35, 1);
      models[3].values()[place] = bad;
      std::vector<float> out(35);
      Workers workers;
      EXPECT_FALSE(column_means(models.rows(), ColumnRule::median(5), nullptr, out, workers));
    }
  }
}

// Around blocks and the parts of several workers; with copies of the rows; without a network.
TEST(ColumnMeans, AreThoseOfSortInAllWaysAndOrders) {
  struct Size {
    std::int64_t rows;
    std::int64_t columns;
  };
  for (const Size size : {Size{3, 2047},
                          {3, 2048},
                          {3, 2049},
                          {5, 270'000},
                          {300, 12'300},
                          {513, 2100},
                          {9000, 530},
                          {16385, 70}}) {
    SCOPED_TRACE(size.rows);
    const Models models(size.rows, size.columns, 5);
    Rows rows = models.rows();
    Random random(9);
    for (const ColumnRule& rule :
         {ColumnRule::median(size.rows), ColumnRule::trimmed_mean(size.rows, size.rows / 3)}) {
      std::vector<std::uint32_t> first;
      for (const int count : {1, 2, 3}) {
        Workers workers(count);
        std::vector<float> out(models.columns());
        ASSERT_TRUE(column_means(rows, rule, nullptr, out, workers));
        if (first.empty()) first = bits_of(out);
        EXPECT_EQ(bits_of(out), first);
        random.shuffle(rows);
        for (std::size_t j = 0; count == 1 && j < models.columns(); j += 61) {
          EXPECT_EQ(out[j], static_cast<float>(mean_by_rule(models.sorted_column(j), rule))) << j;
        }
      }
    }
  }
}

TEST(ColumnMeans, RoundOnceWhatIsAdded) {
  const Models models(4, 300, 3);
  const StateDict added = [&] {
    Models copy(1, 300, 4);
    return copy[0].clone();
  }();
  std::vector<float> out(300);
  Workers workers;
  ASSERT_TRUE(column_means(models.rows(), ColumnRule::median(4), &added, out, workers));
  for (std::size_t j = 0; j < out.size(); ++j) {
    const double median = mean_by_rule(models.sorted_column(j), ColumnRule::median(4));
    EXPECT_EQ(out[j], static_cast<float>(static_cast<double>(added.values()[j]) + median)) << j;
  }
}

TEST(ColumnMeans, OfTheLargestValuesDoNotOverflow) {
  Models models(2, 3, 1);
  for (std::size_t row : {0U, 1U}) {
    for (float& value : models[row].values()) value = std::numeric_limits<float>::max();
  }
  std::vector<float> out(3);
  Workers workers;
  ASSERT_TRUE(column_means(models.rows(), ColumnRule::median(2), nullptr, out, workers));
  for (const float value : out) EXPECT_EQ(value, std::numeric_limits<float>::max());
}

// Calls check(zeros and ones) for all ways to fill rows whose groups are sorted.
template <typename Check>
void each_sorted_input(std::int64_t rows, std::vector<int>& values, const Check& check) {
  const auto begin = static_cast<std::int64_t>(values.size());
  if (begin == rows) return check(values);
  const std::int64_t end = std::min(begin + kernels::kSortGroup, rows);
  for (std::int64_t first_one = begin; first_one <= end; ++first_one) {
    for (std::int64_t row = begin; row < end; ++row) values.push_back(row >= first_one ? 1 : 0);
    each_sorted_input(rows, values, check);
    values.resize(static_cast<std::size_t>(begin));
  }
}

// What puts all zeros and ones in order puts all numbers in order (Knuth, 5.3.4, theorem Z).
TEST(SortingNetwork, PutsTheWantedRowsOfAllZerosAndOnesInOrder) {
  for (const std::int64_t n : {1, 2, 15, 16, 17, 18, 31, 32, 33, 40, 47, 48, 49, 63, 64}) {
    for (const auto& [first, last] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {0, n}, {(n - 1) / 2, n / 2 + 1}, {n / 4, n - n / 4}, {0, 1}, {n - 1, n}}) {
      const auto network = sorting_network(n, first, last);
      std::vector<int> input;
      each_sorted_input(n, input, [&](std::vector<int> values) {
        const auto zeros = std::ranges::count(values, 0);
        for (const kernels::Comparator& c : network) {
          auto& low = values[static_cast<std::size_t>(c.low)];
          auto& high = values[static_cast<std::size_t>(c.high)];
          if (low > high) std::swap(low, high);
        }
        for (std::int64_t row = first; row < last; ++row) {
          ASSERT_EQ(values[static_cast<std::size_t>(row)], row >= zeros ? 1 : 0) << n << " rows";
        }
      });
    }
  }
}

TEST(SortingNetwork, HasOnlyWhatTheWantedRowsNeed) {
  EXPECT_TRUE(sorting_network(16, 0, 16).empty());
  EXPECT_EQ(sorting_network(32, 0, 32).size(), 65U);  // Knuth, 5.3.4: 16 * 4 + 1
  EXPECT_EQ(sorting_network(100, 0, 100).size(), 719U);
  EXPECT_EQ(sorting_network(100, 49, 51).size(), 513U);
}

}  // namespace
}  // namespace muster
