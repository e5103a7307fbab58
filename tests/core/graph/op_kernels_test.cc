#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/base/random.h"
#include "core/tensor/kernels/kernels.h"

// The fast loops of the simple ops, on every instruction set that this processor has.
namespace muster::kernels {
namespace {

std::vector<float> draw(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(3 * random.normal());
  return values;
}

class Results {
 public:
  float* floats(std::int64_t count) {
    all_.emplace_back(static_cast<std::size_t>(count), 0.0F);
    return all_.back().data();
  }
  void number(double value) { all_.push_back({static_cast<float>(value)}); }

  std::vector<float> joined() const {
    std::vector<float> values;
    for (const std::vector<float>& each : all_)
      values.insert(values.end(), each.begin(), each.end());
    return values;
  }

 private:
  std::vector<std::vector<float>> all_;
};

void activations(const Table& t, std::int64_t n, const float* x, const float* dy, Results& out) {
  t.add_pair(n, x, dy, out.floats(n));
  t.multiply(n, x, out.floats(n));
  t.leaky_relu(n, 0.3F, x, out.floats(n));
  t.leaky_relu_gradient(n, 0.3F, x, dy, out.floats(n));
  t.gelu(n, x, out.floats(n));
  t.gelu_gradient(n, x, dy, out.floats(n));
  t.gelu_tanh(n, x, out.floats(n));
  t.gelu_tanh_gradient(n, x, dy, out.floats(n));
  float* y = out.floats(n);
  t.softmax(1, n, x, y);
  t.softmax_gradient(1, n, y, dy, out.floats(n));
}

void normalisation(const Table& t, std::int64_t n, const float* x, const float* dy, Results& out) {
  double mean = 0;
  double squares = 0;
  t.moments(n, x, &mean, &squares);
  out.number(mean);
  out.number(squares);
  const float m[] = {0.25F, -1.5F};
  const float a[] = {0.7F, 1.3F};
  const float b[] = {-0.1F, 0.9F};
  const std::int64_t half = n / 2;
  t.channel_means(2, half, x, out.floats(2));
  t.normalise(2, half, m, a, b, x, out.floats(2 * half));
  t.normalise_sums(2, half, m, x, dy, out.floats(4));
  t.normalise_gradient(2, half, m, a, b, a, x, dy, out.floats(2 * half));
  t.normalise_row(n, 0.25F, 0.7F, dy, x, x, out.floats(n));
  t.normalise_row(n, 0.25F, 0.7F, nullptr, nullptr, x, out.floats(n));
  t.normalise_row_gradient(n, 0.25F, 0.7F, x, x, dy, out.floats(n));
  const float statistics[] = {0.25F, 0.7F, -1.5F, 1.3F};
  t.normalise_row_columns(2, half, 0, half, statistics, x, dy, out.floats(half), out.floats(half),
                          false);
}

// On arrays of just the right size, so that a sanitizer sees what reaches over.
void pooling(const Table& t, const Pool& pool, Results& out) {
  const std::int64_t size = 2 * pool.height * pool.width;
  const std::int64_t positions = 2 * pool.out_height * pool.out_width;
  const std::vector<float> x = draw(static_cast<std::size_t>(size), 3);
  const std::vector<float> dy = draw(static_cast<std::size_t>(positions), 4);
  std::vector<std::uint8_t> where(static_cast<std::size_t>(positions));
  float* y = out.floats(positions);
  t.max_pool(pool, 2, x.data(), y, where.data());
  t.max_pool_gradient(pool, 2, x.data(), y, where.data(), dy.data(), out.floats(size));
  t.avg_pool(pool, 2, x.data(), out.floats(positions));
  std::vector<float> scratch(static_cast<std::size_t>(pool.out_width));
  t.avg_pool_gradient(pool, 2, dy.data(), out.floats(size), scratch.data());
}

std::vector<float> everything(const Table& table) {
  Results out;
  const std::vector<float> x = draw(5000, 1);
  const std::vector<float> dy = draw(5000, 2);
  for (const std::int64_t n :
       {2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 49, 63, 64, 100, 2049, 4999}) {
    const std::vector<float> exact_x(x.begin(), x.begin() + n);
    const std::vector<float> exact_dy(dy.begin(), dy.begin() + n);
    activations(table, n, exact_x.data(), exact_dy.data(), out);
    normalisation(table, n, exact_x.data(), exact_dy.data(), out);
  }
  for (const std::int64_t width : {2, 6, 7, 8, 14, 16, 17, 28, 33}) {
    const std::int64_t halves = width / 2;
    pooling(table,
            {.height = 4,
             .width = width,
             .out_height = 2,
             .out_width = halves,
             .kernel_height = 2,
             .kernel_width = 2,
             .stride_height = 2,
             .stride_width = 2},
            out);
    pooling(table,
            {.height = 4,
             .width = width,
             .out_height = 4,
             .out_width = (width - 1) / 2 + 1,
             .kernel_height = 3,
             .kernel_width = 3,
             .stride_height = 1,
             .stride_width = 2,
             .pad_height = 1,
             .pad_width = 1,
             .count_include_pad = false},
            out);
  }
  return out.joined();
}

TEST(OpKernels, InstructionSetsAgreeAndThoseWithFusedMultiplyAddsToTheBit) {
  std::vector<std::vector<float>> fused;
  const std::vector<float> first = everything(*available()[0]);
  for (const Table* const* table = available(); *table != nullptr; ++table) {
    SCOPED_TRACE((*table)->name);
    const std::vector<float> all = everything(**table);
    ASSERT_EQ(all.size(), first.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_NEAR(all[i], first[i], 2e-5 + 2e-5 * std::abs(first[i])) << i;
    }
    if ((*table)->fused) fused.push_back(all);
  }
  for (const std::vector<float>& each : fused) {
    for (std::size_t i = 0; i < each.size(); ++i) ASSERT_EQ(each[i], fused[0][i]) << i;
  }
}

// Cut anywhere, an elementwise loop gives the same bits.
TEST(OpKernels, ElementsDoNotDependOnHowALoopIsCut) {
  const std::vector<float> x = draw(203, 1);
  const std::vector<float> dy = draw(203, 2);
  for (const Table* const* table = available(); *table != nullptr; ++table) {
    SCOPED_TRACE((*table)->name);
    for (std::int64_t cut : {1, 5, 16, 17, 100, 202}) {
      std::vector<float> whole(203);
      std::vector<float> parts(203);
      for (const auto each : {(*table)->gelu_gradient, (*table)->gelu_tanh_gradient}) {
        each(203, x.data(), dy.data(), whole.data());
        each(cut, x.data(), dy.data(), parts.data());
        each(203 - cut, x.data() + cut, dy.data() + cut, parts.data() + cut);
        EXPECT_TRUE(whole == parts);
      }
    }
  }
}

TEST(OpKernels, MomentsOfConstantsAreExact) {
  for (const Table* const* table = available(); *table != nullptr; ++table) {
    for (const std::size_t n : {std::size_t{1}, std::size_t{49}, std::size_t{12544}}) {
      const std::vector<float> x(n, 1e4F + 0.1F);
      double mean = 0;
      double squares = 1;
      (*table)->moments(static_cast<std::int64_t>(n), x.data(), &mean, &squares);
      EXPECT_NEAR(mean, static_cast<double>(x[0]), 1e-2);
      EXPECT_NEAR(squares / static_cast<double>(n), 0, 1e-5);
    }
  }
}

}  // namespace
}  // namespace muster::kernels
