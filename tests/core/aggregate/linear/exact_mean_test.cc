#include "core/aggregate/linear/exact_mean.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "core/aggregate/blocks.h"
#include "core/tensor/kernels/kernels.h"
#include "tests/core/aggregate/exact_reference.h"

namespace muster {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> mean_of(const MeanOf& mean, std::size_t size, Workers* workers = nullptr,
                           const kernels::Table& table = kernels::best()) {
  std::vector<float> out(size, 99.0F);
  const auto bad = exact_mean(mean, out, workers, table);
  EXPECT_FALSE(bad.has_value()) << "term " << bad->term;
  return out;
}

std::vector<float> mean_of(const MeanCase& mean) {
  Prepared prepared(mean);
  return mean_of(prepared.mean(), prepared.size());
}

// With every instruction set. Zeros by value here: their signs have tests of their own.
void expect_exact(const MeanCase& mean, const std::string& what = "") {
  const std::vector<float> wanted = rational_mean(mean);
  Prepared prepared(mean);
  for (const auto* table = kernels::available(); *table != nullptr; ++table) {
    const auto got = mean_of(prepared.mean(), prepared.size(), nullptr, **table);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(got[i], wanted[i]) << (*table)->name << ", " << what << ", element " << i;
    }
  }
}

MeanCase random_case(Random& random, std::size_t terms, std::size_t size, int low, int high,
                     const std::function<double()>& weight) {
  MeanCase mean;
  mean.divisor = {0, 0};
  for (std::size_t t = 0; t < terms; ++t) {
    ReferenceTerm term{weight(), {}};
    for (std::size_t i = 0; i < size; ++i) term.values.push_back(any_float(random, low, high));
    DoubleDouble::add(mean.divisor.high, mean.divisor.low, term.weight);
    mean.terms.push_back(std::move(term));
  }
  return mean;
}

void add_centre_and_base(MeanCase& mean, Random& random, int low, int high) {
  for (std::size_t i = 0; i < mean.size(); ++i) {
    mean.centre.push_back(any_float(random, low, high));
    mean.base.push_back(any_float(random, low, high));
  }
  mean.base_weight = mean.divisor;
}

struct Weights {
  const char* name;
  std::function<double(Random&)> draw;
};
const std::vector<Weights> kWeights{
    {"equal", [](Random&) { return 1.0; }},
    {"examples", [](Random& r) { return static_cast<double>(10 * (1 + r.below(1000))); }},
    {"equal and no whole number", [](Random&) { return 0.1; }},
    {"up to 2^53",
     [](Random& r) { return static_cast<double>(1 + r.below(std::uint64_t{1} << 53)); }},
    {"real", [](Random& r) { return 1 / std::sqrt(1.0 + static_cast<double>(r.below(20))); }},
    {"of both signs", [](Random& r) { return r.normal() + 8; }},
    {"from 2^-250 to 2^250",
     [](Random& r) { return std::ldexp(1 + r.uniform(), static_cast<int>(r.below(500)) - 250); }},
};

TEST(ExactMean, IsTheFloatNearestToTheRationalMean) {
  Random random(1);
  const std::pair<int, int> ranges[] = {{-3, 3}, {-100, 100}, {-149, -120}, {-149, 127}, {0, 0}};
  for (const Weights& weights : kWeights) {
    for (const auto& [low, high] : ranges) {
      for (const std::size_t terms : {1, 2, 3, 4, 6, 9, 10, 17, 40}) {
        MeanCase mean =
            random_case(random, terms, 130, low, high, [&] { return weights.draw(random); });
        const std::string what = std::string(weights.name) + ", " + std::to_string(terms) +
                                 " terms, 2^" + std::to_string(low) + " to 2^" +
                                 std::to_string(high);
        expect_exact(mean, what);
        add_centre_and_base(mean, random, low, high);
        expect_exact(mean, what + ", centre and base");
      }
    }
  }
}

TEST(ExactMean, DecidesTiesToEven) {
  Random random(2);
  for (const std::size_t terms : {2, 4, 6, 10, 12}) {
    for (const double weight : {1.0, 6000.0, 0.3, 0x1.0p-70, 12345678.0}) {
      // Within one exponent every other mean of two is half way.
      const MeanCase mean = random_case(random, terms, 1000, 5, 5, [&] { return weight; });
      expect_exact(mean, std::to_string(terms) + " terms of " + std::to_string(weight));
    }
  }
}

TEST(ExactMean, SeesWhatIsFarBelowATie) {
  // 1 + 2^-24 is half way; a term 2^-149 decides where it goes.
  const float next = 1.0F + 0x1.0p-23F;
  const float tiny = std::numeric_limits<float>::denorm_min();
  MeanCase mean;
  mean.terms = {{1, {1, 1, 1, -1, -1, next}},
                {1, {next, next, next, -next, -next, next + 0x1.0p-23F}},
                {1, {tiny, -tiny, 0, tiny, -tiny, 0}}};
  mean.divisor = {2, 0};
  EXPECT_EQ(mean_of(mean), (std::vector<float>{next, 1, 1, -1, -next, 1 + 0x1.0p-22F}));
  expect_exact(mean);
}

TEST(ExactMean, SurvivesCancellation) {
  MeanCase mean;
  mean.terms = {
      {3, {1e30F, 1e30F}}, {3, {1e-30F, 1e-30F}}, {3, {-1e30F, -1e30F}}, {3, {0, -1e-30F}}};
  mean.divisor = {12, 0};
  expect_exact(mean);
  EXPECT_EQ(mean_of(mean)[1], 0.0F);
  EXPECT_FALSE(std::signbit(mean_of(mean)[1]));
}

TEST(ExactMean, KeepsWhatItCentres) {
  // Small changes of large values, with counts that leave no room for exact doubles.
  Random random(3);
  MeanCase mean = random_case(random, 7, 500, 0, 3, [&] {
    return static_cast<double>(1 + random.below(std::uint64_t{1} << 45));
  });
  for (std::size_t i = 0; i < mean.size(); ++i) {
    mean.centre.push_back(any_float(random, 0, 3));
    for (ReferenceTerm& term : mean.terms) {
      term.values[i] = mean.centre[i] * (1 + 1e-5F * static_cast<float>(random.normal()));
    }
  }
  expect_exact(mean);
}

TEST(ExactMean, DividesByWhatDoesNotFitADouble) {
  const std::int64_t half = std::int64_t{1} << 53;
  const float next = 1.0F + 0x1.0p-23F;
  MeanCase mean;
  mean.terms = {{static_cast<double>(half), {1, next}},
                {static_cast<double>(half), {next, 1}},
                {1, {next, 1}}};
  mean.divisor = {static_cast<double>(2 * half), 1};
  EXPECT_EQ(mean_of(mean), (std::vector<float>{next, 1}));
  expect_exact(mean);
}

TEST(ExactMean, RoundsToInfinityAndToZeroAsFloat32Does) {
  const float most = std::numeric_limits<float>::max();
  const float least = std::numeric_limits<float>::denorm_min();
  MeanCase mean;
  // The first is half way between the largest and 2^128; the second just below.
  mean.terms = {{1, {most, most, -most, least, least, -least}},
                {1, {0x1.0p103F, 0x1.fffffep102F, -most, 0, 0x1.0p-148F, 0}}};
  EXPECT_EQ(mean_of(mean),
            (std::vector<float>{kInfinity, most, -kInfinity, least, 3 * least, -least}));
  expect_exact(mean);
  mean.divisor = {2, 0};
  const auto halves = mean_of(mean);
  EXPECT_EQ(bits_of({halves.data() + 3, 3}), bits_of(std::vector<float>{0.0F, 2 * least, -0.0F}));
  expect_exact(mean);
}

TEST(ExactMean, HasNegativeZeroWhereAllAreThat) {
  for (const double weight : {1.0, 1e-300, 0.1, 3.0}) {
    MeanCase mean;
    mean.terms = {{weight, {-0.0F, -0.0F, 1, 0}},
                  {weight, {-0.0F, 0.0F, -1, -0.0F}},
                  {weight, {-0.0F, -0.0F, 0, 0}}};
    mean.divisor = {3 * weight, 0};
    const std::vector<float> wanted{-0.0F, 0, 0, 0};
    EXPECT_EQ(bits_of(mean_of(mean)), bits_of(wanted)) << weight;
    mean.terms.push_back({weight * 1e200, {-0.0F, -0.0F, 0, 0}});
    EXPECT_EQ(bits_of(mean_of(mean)), bits_of(wanted)) << weight;
  }
}

TEST(ExactMean, OfOneTermByItsWeightIsTheTermBitForBit) {
  Random random(4);
  for (const double weight : {1.0, 6000.0, 0.1}) {
    const MeanCase mean = random_case(random, 1, 3000, -149, 127, [&] { return weight; });
    EXPECT_EQ(bits_of(mean_of(mean)), bits_of(mean.terms[0].values));
  }
}

TEST(ExactMean, IsTheSameInAThousandOrders) {
  Random random(5);
  for (const Weights& weights : kWeights) {
    MeanCase mean = random_case(random, 12, 50, -100, 100, [&] { return weights.draw(random); });
    mean.divisor = {1, 0};
    Prepared prepared(mean);
    const auto wanted = bits_of(mean_of(prepared.mean(), prepared.size()));
    for (int order = 0; order < 1000; ++order) {
      random.shuffle(prepared.mean().terms);
      ASSERT_EQ(bits_of(mean_of(prepared.mean(), prepared.size())), wanted) << weights.name;
    }
  }
}

TEST(ExactMean, IsTheSameWithAnyWorkersAndInstructionsAroundTheEdgesOfBlocks) {
  Random random(6);
  for (const std::int64_t size :
       {std::int64_t{1}, std::int64_t{3}, std::int64_t{15}, std::int64_t{16}, std::int64_t{17},
        std::int64_t{33}, kBlock - 1, kBlock, kBlock + 1, 70 * kBlock + 5}) {
    for (const bool more : {false, true}) {
      MeanCase mean = random_case(random, 11, static_cast<std::size_t>(size), -12, 12,
                                  [&] { return static_cast<double>(1 + random.below(100)); });
      if (more) add_centre_and_base(mean, random, -12, 12);
      Prepared prepared(mean);
      const auto wanted = bits_of(mean_of(prepared.mean(), prepared.size()));
      if (size < 100) {
        EXPECT_EQ(wanted, bits_of(rational_mean(mean)));
      }
      for (int count = 1; count <= 3; ++count) {
        Workers workers(count);
        for (const auto* table = kernels::available(); *table != nullptr; ++table) {
          ASSERT_EQ(bits_of(mean_of(prepared.mean(), prepared.size(), &workers, **table)), wanted)
              << (*table)->name << ", " << count << " workers, size " << size;
        }
      }
    }
  }
}

TEST(ExactMean, NamesTheTermThatIsNotFinite) {
  Random random(7);
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const double weight : {1.0, 0.3, 0x1.0p-1000}) {
      for (const std::size_t place :
           {std::size_t{0}, std::size_t{2047}, std::size_t{2048}, std::size_t{4999}}) {
        for (std::size_t term = 0; term < 11; term += 5) {
          MeanCase mean = random_case(random, 11, 5000, -3, 3, [&] { return weight; });
          mean.divisor = {1, 0};
          mean.terms[term].values[place] = bad;
          mean.terms[10].values[4999] = bad;  // a later one is not what is named
          Prepared prepared(mean);
          for (int count = 1; count <= 2; ++count) {
            Workers workers(count);
            std::vector<float> out(5000);
            const auto found = exact_mean(prepared.mean(), out, &workers);
            ASSERT_TRUE(found.has_value());
            EXPECT_EQ(found->term, term);
          }
        }
      }
    }
  }
}

TEST(ExactMean, OfOneTermNamesItWhenItIsNotFinite) {
  MeanCase mean;
  mean.terms = {{0, {1, 2, 3}}, {1, {1, kInfinity, 3}}};
  Prepared prepared(mean);
  std::vector<float> out(3);
  const auto found = exact_mean(prepared.mean(), out, nullptr);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->term, 1U);
}

class Unreadable final : public UpdateValues {
 public:
  const StateLayout& layout() const override { std::abort(); }
  std::int64_t size() const override { return 3; }
  const float* read(std::int64_t, std::int64_t, float*) const override { std::abort(); }
  void release(std::int64_t, std::int64_t) const override { std::abort(); }
};

TEST(ExactMean, DoesNotReadTermsOfWeightZero) {
  MeanCase mean;
  mean.terms = {{2, {1, 2, 3}}, {2, {2, 3, 4}}};
  mean.divisor = {4, 0};
  Prepared prepared(mean);
  const Unreadable unreadable;
  prepared.mean().terms.insert(prepared.mean().terms.begin(), {&unreadable, 0});
  EXPECT_EQ(mean_of(prepared.mean(), 3), (std::vector<float>{1.5F, 2.5F, 3.5F}));
  PartialSums sums;
  EXPECT_FALSE(add_to(sums, prepared.mean().terms, nullptr).has_value());
  EXPECT_EQ(sums.high, (std::vector<double>{6, 10, 14}));
}

TEST(ExactMean, IsNotFiniteWhereTheCentreIsNot) {
  MeanCase mean;
  mean.terms = {{1, {1, 2}}, {1, {2, 3}}};
  mean.divisor = {2, 0};
  mean.centre = {kInfinity, 0.5F};
  const auto got = mean_of(mean);
  EXPECT_FALSE(std::isfinite(got[0]));
  EXPECT_EQ(got[1], 2.0F);
}

// Decoded as it is read, and given back when it was read.
class Decoded final : public UpdateValues {
 public:
  explicit Decoded(const std::vector<float>& values) : state_(state_of(values)) {}

  const StateLayout& layout() const override { return state_.layout(); }
  std::int64_t size() const override { return state_.layout().num_elements(); }
  const float* read(std::int64_t begin, std::int64_t count, float* scratch) const override {
    std::copy_n(state_.values().data() + begin, count, scratch);
    return scratch;
  }
  void release(std::int64_t begin, std::int64_t count) const override {
    EXPECT_EQ(begin % kBlock, 0);
    released_ += count;
  }
  std::int64_t released() const { return released_; }

 private:
  StateDict state_;
  mutable std::int64_t released_ = 0;
};

TEST(ExactMean, ReadsDecodedValuesAndGivesThemBackOnce) {
  Random random(8);
  for (const std::size_t terms : {1, 2, 8, 9, 25}) {
    MeanCase mean = random_case(random, terms, 5 * kBlock + 77, -20, 20, [] { return 7.0; });
    Prepared prepared(mean);
    std::vector<std::unique_ptr<Decoded>> decoded;
    MeanOf other;
    other.divisor = mean.divisor;
    for (const ReferenceTerm& term : mean.terms) {
      decoded.push_back(std::make_unique<Decoded>(term.values));
      other.terms.push_back({decoded.back().get(), term.weight});
    }
    EXPECT_EQ(bits_of(mean_of(other, prepared.size())),
              bits_of(mean_of(prepared.mean(), prepared.size())));
    for (const auto& values : decoded) EXPECT_EQ(values->released(), values->size());
  }
}

}  // namespace
}  // namespace muster
