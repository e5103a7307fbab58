#include "core/tensor/kernels/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/base/random.h"

// Every instruction set that this processor has, against sums in double.
namespace muster::kernels {
namespace {

std::vector<float> values(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> result(static_cast<std::size_t>(count));
  for (float& value : result) value = static_cast<float>(random.uniform() * 2 - 1);
  return result;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want,
                 const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 2e-4) << what << ", element " << i;
  }
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

std::vector<const Table*> tables() {
  std::vector<const Table*> all;
  for (const Table* const* table = available(); *table != nullptr; ++table) all.push_back(*table);
  return all;
}

class Kernels : public testing::TestWithParam<const Table*> {};
INSTANTIATE_TEST_SUITE_P(Sets, Kernels, testing::ValuesIn(tables()), [](const auto& test) {
  std::string name = test.param->name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

struct Product {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

// Around the sizes of tiles, panels and blocks.
const std::vector<Product> kProducts{{1, 1, 1},    {1, 5, 3},     {3, 7, 2},     {8, 48, 16},
                                     {9, 49, 17},  {10, 16, 300}, {7, 15, 256},  {23, 200, 9},
                                     {24, 31, 33}, {25, 33, 257}, {130, 450, 4}, {129, 65, 513}};

// How A and B lie: row by row or column by column.
std::vector<float> multiply(const Table& table, const Product& size, bool a_turned, bool b_turned,
                            bool packed, bool accumulate) {
  const auto a = values(size.m * size.k, 1);
  const auto b = values(size.k * size.n, 2);
  auto c = values(size.m * size.n, 3);
  std::vector<float> packed_b(static_cast<std::size_t>(packed_b_size(size.k, size.n)));
  std::vector<float> scratch(kGemmScratch);
  const std::int64_t b_step = b_turned ? 1 : size.n;
  const std::int64_t b_column = b_turned ? size.k : 1;
  if (packed) table.pack_b(size.k, size.n, b.data(), b_step, b_column, packed_b.data());
  table.gemm({.m = size.m,
              .n = size.n,
              .k = size.k,
              .a = a.data(),
              .a_row = a_turned ? 1 : size.k,
              .a_step = a_turned ? size.m : 1,
              .b = packed ? nullptr : b.data(),
              .b_step = b_step,
              .b_column = b_column,
              .packed_b = packed ? packed_b.data() : nullptr,
              .c = c.data(),
              .c_row = size.n,
              .accumulate = accumulate},
             scratch.data());
  return c;
}

std::vector<double> multiplied(const Product& size, bool a_turned, bool b_turned, bool accumulate) {
  const auto a = values(size.m * size.k, 1);
  const auto b = values(size.k * size.n, 2);
  const auto before = values(size.m * size.n, 3);
  std::vector<double> c;
  for (std::int64_t i = 0; i < size.m; ++i) {
    for (std::int64_t j = 0; j < size.n; ++j) {
      double sum = accumulate ? before[static_cast<std::size_t>(i * size.n + j)] : 0.0;
      for (std::int64_t p = 0; p < size.k; ++p) {
        sum += static_cast<double>(
                   a[static_cast<std::size_t>(a_turned ? p * size.m + i : i * size.k + p)]) *
               b[static_cast<std::size_t>(b_turned ? j * size.k + p : p * size.n + j)];
      }
      c.push_back(sum);
    }
  }
  return c;
}

TEST_P(Kernels, MultiplyMatricesOfAnySizeAndOrder) {
  for (const Product& size : kProducts) {
    for (int form = 0; form < 16; ++form) {
      const bool a_turned = (form & 1) != 0;
      const bool b_turned = (form & 2) != 0;
      const bool packed = (form & 4) != 0;
      const bool accumulate = (form & 8) != 0;
      expect_near(multiply(*GetParam(), size, a_turned, b_turned, packed, accumulate),
                  multiplied(size, a_turned, b_turned, accumulate),
                  std::to_string(size.m) + "x" + std::to_string(size.n) + "x" +
                      std::to_string(size.k) + " form " + std::to_string(form));
    }
  }
}

TEST_P(Kernels, GiveAProductTheSameBitsPackedOrNot) {
  for (const Product& size : kProducts) {
    EXPECT_TRUE(same_bits(multiply(*GetParam(), size, false, false, false, false),
                          multiply(*GetParam(), size, false, false, true, false)));
  }
}

TEST_P(Kernels, GiveAProductTheSameBitsInParts) {
  const Product size{50, 160, 300};
  const auto whole = multiply(*GetParam(), size, false, false, false, false);
  const auto a = values(size.m * size.k, 1);
  const auto b = values(size.k * size.n, 2);
  std::vector<float> scratch(kGemmScratch);
  std::vector<float> c(static_cast<std::size_t>(size.m * size.n));
  for (std::int64_t i = 0; i < size.m; i += 10) {
    for (std::int64_t j = 0; j < size.n; j += 32) {
      GetParam()->gemm({.m = 10,
                        .n = 32,
                        .k = size.k,
                        .a = a.data() + i * size.k,
                        .a_row = size.k,
                        .b = b.data() + j,
                        .b_step = size.n,
                        .c = c.data() + i * size.n + j,
                        .c_row = size.n},
                       scratch.data());
    }
  }
  EXPECT_TRUE(same_bits(c, whole));
}

TEST_P(Kernels, MultiplyByARowForEveryOutput) {
  for (const std::int64_t rows : {1, 2, 4, 5, 11}) {
    for (const std::int64_t in : {1, 15, 16, 17, 40, 784}) {
      for (const std::int64_t out : {1, 6, 10, 13}) {
        const auto x = values(rows * in, 1);
        const auto w = values(out * in, 2);
        const auto bias = values(out, 3);
        std::vector<float> y(static_cast<std::size_t>(rows * out));
        std::vector<float> scratch(kGemmScratch);
        GetParam()->dense_forward({.rows = rows,
                                   .in = in,
                                   .out = out,
                                   .x = x.data(),
                                   .w = w.data(),
                                   .bias = bias.data(),
                                   .y = y.data(),
                                   .y_row = out},
                                  scratch.data());
        std::vector<double> want;
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t o = 0; o < out; ++o) {
            double sum = bias[static_cast<std::size_t>(o)];
            for (std::int64_t p = 0; p < in; ++p) {
              sum += static_cast<double>(x[static_cast<std::size_t>(r * in + p)]) *
                     w[static_cast<std::size_t>(o * in + p)];
            }
            want.push_back(sum);
          }
        }
        expect_near(y, want, "dense");
      }
    }
  }
}

TEST_P(Kernels, TransposeAndAddTransposed) {
  for (const std::int64_t rows : {1, 4, 7, 16}) {
    for (const std::int64_t columns : {1, 3, 8, 13}) {
      const auto from = values(rows * columns, 1);
      auto to = values(rows * columns, 2);
      auto sum = to;
      const auto before = to;
      GetParam()->transpose(rows, columns, from.data(), to.data(), false);
      GetParam()->transpose(rows, columns, from.data(), sum.data(), true);
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          const float value = from[static_cast<std::size_t>(i * columns + j)];
          const auto at = static_cast<std::size_t>(j * rows + i);
          ASSERT_EQ(to[at], value);
          ASSERT_EQ(sum[at], before[at] + value);
        }
      }
    }
  }
}

using Map = void (*)(int64_t, const float*, float*);
void expect_map(Map got, double (*want)(double), const std::string& what) {
  std::vector<float> x{0.0F, -0.0F, 1e-30F, -1e-8F, 0.624F, 0.626F, 1, -1, 5, -5, 20, -20, 88, -88};
  for (int i = -400; i < 400; ++i) x.push_back(static_cast<float>(i) * 0.05F + 0.013F);
  std::vector<float> y(x.size());
  got(static_cast<int64_t>(x.size()), x.data(), y.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = want(x[i]);
    EXPECT_NEAR(y[i], exact, 4e-7 * std::abs(exact) + 1e-37) << what << " of " << x[i];
  }
}

TEST_P(Kernels, ComputeTanhAndSigmoidToFloatPrecision) {
  expect_map(
      GetParam()->tanh, [](double x) { return std::tanh(x); }, "tanh");
  expect_map(
      GetParam()->sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, "sigmoid");
}

TEST_P(Kernels, KeepNotANumber) {
  const std::vector<float> x(37, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> y(37);
  for (const Map map : {GetParam()->tanh, GetParam()->sigmoid, GetParam()->relu}) {
    map(37, x.data(), y.data());
    for (const float value : y) EXPECT_TRUE(std::isnan(value));
  }
  EXPECT_TRUE(std::isnan(GetParam()->sum(37, x.data())));
}

TEST_P(Kernels, SumInDoublePrecision) {
  for (const std::int64_t n : {0, 1, 15, 16, 100, 1000}) {
    const auto x = values(n, 1);
    double sum = 0;
    for (const float value : x) sum += value;
    EXPECT_NEAR(GetParam()->sum(n, x.data()), sum, 1e-12 * 1000);
  }
}

TEST_P(Kernels, MapAnElementToTheSameBitsWhereverItStands) {
  auto x = values(1003, 8);
  for (float& value : x) value *= 9;
  for (const Map map : {GetParam()->tanh, GetParam()->sigmoid, GetParam()->relu, GetParam()->gelu,
                        GetParam()->gelu_tanh}) {
    std::vector<float> whole(x.size());
    map(1003, x.data(), whole.data());
    std::vector<float> alone(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) map(1, x.data() + i, alone.data() + i);
    EXPECT_TRUE(same_bits(whole, alone));
  }
}

// What each kernel makes of fixed inputs, all in one array.
std::vector<float> everything(const Table& table) {
  std::vector<float> all;
  const auto append = [&](const std::vector<float>& part) {
    all.insert(all.end(), part.begin(), part.end());
  };
  for (const Product& size : kProducts) append(multiply(table, size, true, true, false, true));
  for (const Map map : {table.tanh, table.sigmoid, table.relu}) {
    auto x = values(1001, 4);
    for (float& value : x) value *= 30;
    map(1001, x.data(), x.data());
    append(x);
  }
  for (const std::int64_t n : {5, 16, 999}) {
    all.push_back(static_cast<float>(table.sum(n, values(n, 5).data())));
  }
  std::vector<float> y(13 * 7);
  std::vector<float> scratch(kGemmScratch);
  const auto x = values(7 * 100, 6);
  const auto w = values(13 * 100, 7);
  table.dense_forward(
      {.rows = 7, .in = 100, .out = 13, .x = x.data(), .w = w.data(), .y = y.data(), .y_row = 13},
      scratch.data());
  append(y);
  return all;
}

TEST(KernelSets, WithFusedMultiplyAddsGiveTheSameBits) {
  const Table* first = nullptr;
  for (const Table* table : tables()) {
    if (!table->fused) continue;
    if (first == nullptr) {
      first = table;
      continue;
    }
    EXPECT_TRUE(same_bits(everything(*table), everything(*first)))
        << table->name << " and " << first->name;
  }
}

TEST(KernelSets, BestIsTheFirstThatIsAvailable) {
  EXPECT_EQ(&best(), available()[0]);
  EXPECT_STREQ(tables().back()->name, "baseline");
}

}  // namespace
}  // namespace muster::kernels
