#include <gtest/gtest.h>

#include <limits>

#include "core/aggregate/blocks.h"
#include "core/aggregate/linear/exact_mean.h"
#include "core/tensor/kernels/kernels.h"
#include "tests/core/aggregate/exact_reference.h"

namespace muster {
namespace {

std::vector<std::uint64_t> bits_of_doubles(const std::vector<double>& values) {
  std::vector<std::uint64_t> bits;
  for (const double value : values) bits.push_back(std::bit_cast<std::uint64_t>(value));
  return bits;
}

MeanCase random_case(Random& random, std::size_t terms, std::size_t size, int low, int high,
                     std::uint64_t most_examples) {
  MeanCase mean;
  std::uint64_t total = 0;
  for (std::size_t t = 0; t < terms; ++t) {
    const std::uint64_t examples = 1 + random.below(most_examples);
    total += examples;
    ReferenceTerm term{static_cast<double>(examples), {}};
    for (std::size_t i = 0; i < size; ++i) term.values.push_back(any_float(random, low, high));
    mean.terms.push_back(std::move(term));
  }
  mean.divisor = {static_cast<double>(total), 0};
  return mean;
}

// The mean of `terms` cut into parts that are summed apart and merged; the last part is not summed
// before but stays in the mean.
std::vector<float> merged_mean(const MeanOf& whole, std::size_t size, std::size_t parts,
                               Workers* workers, const kernels::Table& table) {
  PartialSums sums;
  MeanOf rest = whole;
  rest.terms.clear();
  const std::size_t count = whole.terms.size();
  for (std::size_t part = 0; part < parts; ++part) {
    const std::vector<WeightedValues> terms(
        whole.terms.begin() + static_cast<std::ptrdiff_t>(count * part / parts),
        whole.terms.begin() + static_cast<std::ptrdiff_t>(count * (part + 1) / parts));
    if (part + 1 == parts) {
      rest.terms = terms;
      continue;
    }
    PartialSums some;
    EXPECT_FALSE(add_to(some, terms, workers, table).has_value());
    add_to(sums, some, workers);
  }
  rest.partial = &sums;
  std::vector<float> out(size);
  EXPECT_FALSE(exact_mean(rest, out, workers, table).has_value());
  return out;
}

TEST(PartialSums, MergedGiveTheBitsOfTheMeanWithin2To60) {
  Random random(1);
  for (const std::size_t terms : {2, 3, 4, 8, 20}) {
    for (const std::uint64_t most :
         {std::uint64_t{1}, std::uint64_t{1000}, std::uint64_t{1} << 14}) {
      MeanCase mean = random_case(random, terms, 2 * kBlock + 9, -30, 29, most);
      for (const bool more : {false, true}) {
        for (std::size_t i = 0; more && i < mean.size(); ++i) {
          mean.base.push_back(any_float(random, -30, 29));
          mean.base_weight = mean.divisor;
        }
        Prepared prepared(mean);
        std::vector<float> wanted(mean.size());
        ASSERT_FALSE(exact_mean(prepared.mean(), wanted, nullptr).has_value());
        for (std::size_t parts = 2; parts <= terms; ++parts) {
          for (const auto* table = kernels::available(); *table != nullptr; ++table) {
            Workers workers(static_cast<int>(parts % 3) + 1);
            ASSERT_EQ(bits_of(merged_mean(prepared.mean(), mean.size(), parts, &workers, **table)),
                      bits_of(wanted))
                << terms << " terms in " << parts << " parts, " << (*table)->name;
          }
        }
      }
    }
  }
}

TEST(PartialSums, StayWithinOneUlpBeyondThat) {
  Random random(2);
  const MeanCase mean = random_case(random, 20, 2000, -100, 100, 1000);
  Prepared prepared(mean);
  const auto wanted = rational_mean(mean);
  const auto got = merged_mean(prepared.mean(), mean.size(), 3, nullptr, kernels::best());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_GE(got[i], std::nextafter(wanted[i], -std::numeric_limits<float>::infinity()));
    EXPECT_LE(got[i], std::nextafter(wanted[i], std::numeric_limits<float>::infinity()));
  }
}

TEST(PartialSums, CentreWhatIsStillToBeRead) {
  Random random(3);
  MeanCase mean = random_case(random, 6, 300, -10, 10, 100);
  for (std::size_t i = 0; i < mean.size(); ++i) mean.centre.push_back(any_float(random, -10, 10));
  Prepared prepared(mean);
  PartialSums zeros;
  zeros.high.assign(mean.size(), -0.0);
  zeros.low.assign(mean.size(), -0.0);
  prepared.mean().partial = &zeros;
  std::vector<float> got(mean.size());
  ASSERT_FALSE(exact_mean(prepared.mean(), got, nullptr).has_value());
  EXPECT_EQ(got, rational_mean(mean));
}

TEST(PartialSums, HoldProductsWithAnyWeightExactly) {
  Random random(4);
  const auto layout = *StateLayout::create({{"w", {100}}});
  for (const double weight : {1.0, 0.1, -0.7, 0x1.fffffffffffffp60, 1.0 / 3, 9007199254740993.0}) {
    std::vector<float> values;
    for (int i = 0; i < 100; ++i) values.push_back(any_float(random, -100, 100));
    const auto view = view_of(*layout, values);
    PartialSums sums;
    const std::vector<WeightedValues> terms{{view.get(), weight}};
    ASSERT_FALSE(add_to(sums, terms, nullptr).has_value());
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(mpq_class(sums.high[i]) + mpq_class(sums.low[i]),
                mpq_class(weight) * mpq_class(values[i]));
    }
  }
}

TEST(PartialSums, AreTheSameWithAnyWorkersAndInstructions) {
  Random random(5);
  const MeanCase mean = random_case(random, 13, 9 * kBlock + 3, -100, 100, 1U << 20);
  Prepared prepared(mean);
  PartialSums wanted;
  ASSERT_FALSE(add_to(wanted, prepared.mean().terms, nullptr).has_value());
  for (int count = 1; count <= 3; ++count) {
    Workers workers(count);
    for (const auto* table = kernels::available(); *table != nullptr; ++table) {
      PartialSums got;
      ASSERT_FALSE(add_to(got, prepared.mean().terms, &workers, **table).has_value());
      EXPECT_EQ(bits_of_doubles(got.high), bits_of_doubles(wanted.high));
      EXPECT_EQ(bits_of_doubles(got.low), bits_of_doubles(wanted.low));
    }
  }
}

TEST(PartialSums, OfNegativeZerosAreThat) {
  MeanCase mean;
  mean.terms = {{2, {-0.0F, -0.0F}}, {3, {-0.0F, 0.0F}}, {1, {-0.0F, -0.0F}}};
  mean.divisor = {6, 0};
  Prepared prepared(mean);
  for (const auto* table = kernels::available(); *table != nullptr; ++table) {
    EXPECT_EQ(bits_of(merged_mean(prepared.mean(), 2, 3, nullptr, **table)),
              bits_of(std::vector<float>{-0.0F, 0.0F}));
  }
}

TEST(PartialSums, NameTheTermThatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    MeanCase mean;
    mean.terms = {{1, {1, 2, 3}}, {2, {4, 5, bad}}, {3, {bad, 1, 1}}};
    mean.divisor = {6, 0};
    Prepared prepared(mean);
    PartialSums sums;
    const auto found = add_to(sums, prepared.mean().terms, nullptr);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->term, 1U);
    PartialSums zeros{{0, 0, 0}, {0, 0, 0}};
    prepared.mean().partial = &zeros;
    std::vector<float> out(3);
    const auto again = exact_mean(prepared.mean(), out, nullptr);
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->term, 1U);
  }
}

TEST(PartialSums, AreAddedToAndFromEmptyOnes) {
  const PartialSums some{{1, 2}, {0x1.0p-60, 0}};
  PartialSums sums;
  add_to(sums, some, nullptr);
  add_to(sums, PartialSums{}, nullptr);
  EXPECT_EQ(sums.high, some.high);
  EXPECT_EQ(sums.low, some.low);
}

}  // namespace
}  // namespace muster
