#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/tensor/kernels/kernels.h"

// The convolution of every instruction set that this processor has, against its definition.
namespace muster::kernels {
namespace {

struct Sizes {
  int64_t channels, height, width, filters, kernel, stride, padding;
};

const std::vector<Sizes> kSizes{{1, 5, 5, 1, 3, 1, 1},   {3, 9, 11, 5, 3, 2, 0},
                                {2, 7, 7, 3, 4, 3, 2},   {4, 14, 14, 17, 5, 1, 2},
                                {9, 8, 8, 70, 3, 1, 1},  {16, 6, 50, 33, 1, 1, 0},
                                {5, 10, 10, 8, 1, 2, 0}, {1, 28, 28, 32, 5, 1, 2}};

Conv conv_of(const Sizes& s) {
  Conv conv;
  conv.in_channels = s.channels;
  conv.height = s.height;
  conv.width = s.width;
  conv.out_channels = s.filters;
  conv.out_height = (s.height + 2 * s.padding - s.kernel) / s.stride + 1;
  conv.out_width = (s.width + 2 * s.padding - s.kernel) / s.stride + 1;
  conv.kernel_height = conv.kernel_width = s.kernel;
  conv.stride_height = conv.stride_width = s.stride;
  conv.pad_top = conv.pad_left = s.padding;
  conv.padded_height = (conv.out_height - 1) * s.stride + s.kernel;
  conv.padded_width = (conv.out_width - 1) * s.stride + s.kernel;
  return conv;
}

std::vector<float> values(int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> result(static_cast<std::size_t>(count));
  for (float& value : result) value = static_cast<float>(random.uniform() * 2 - 1);
  return result;
}

struct Results {
  std::vector<float> y;
  std::vector<float> dx;
  std::vector<float> dw;  // [taps, filters], added to ones
};

Results computed(const Table& table, const Conv& conv, const std::vector<float>& x,
                 const std::vector<float>& w, const std::vector<float>& bias,
                 const std::vector<float>& dy) {
  const auto floats = [](int64_t count, float value) {
    return std::vector<float>(static_cast<std::size_t>(count), value);
  };
  Results r{floats(conv.out_channels * conv.positions(), 0),
            floats(static_cast<int64_t>(x.size()), 0), floats(static_cast<int64_t>(w.size()), 1)};
  std::vector<float> packed = floats(conv_packed_size(conv), 0);
  std::vector<float> scratch = floats(conv_scratch(conv), 9e9F);
  table.conv_pack_forward(conv, w.data(), packed.data());
  table.conv_forward(conv, packed.data(), bias.data(), x.data(), r.y.data(), scratch.data());
  table.conv_pack_backward(conv, w.data(), packed.data());
  table.conv_input_gradient(conv, packed.data(), dy.data(), r.dx.data(), scratch.data());
  // In two parts, as two workers would.
  const int64_t half = std::min<int64_t>(8, conv.taps());
  table.conv_weight_gradient(conv, 0, half, x.data(), dy.data(), r.dw.data(), scratch.data());
  table.conv_weight_gradient(conv, half, conv.taps(), x.data(), dy.data(), r.dw.data(),
                             scratch.data());
  return r;
}

// The definition, position by position and tap by tap.
struct Exact {
  std::vector<double> y;
  std::vector<double> dx;
  std::vector<double> dw;
};

Exact defined(const Conv& conv, const std::vector<float>& x, const std::vector<float>& w,
              const std::vector<float>& bias, const std::vector<float>& dy) {
  Exact exact{std::vector<double>(dy.size()), std::vector<double>(x.size()),
              std::vector<double>(w.size(), 1)};
  for (int64_t o = 0; o < conv.out_channels; ++o) {
    for (int64_t n = 0; n < conv.positions(); ++n) {
      const auto out = static_cast<std::size_t>(o * conv.positions() + n);
      exact.y[out] = bias[static_cast<std::size_t>(o)];
      for (int64_t tap = 0; tap < conv.taps(); ++tap) {
        const int64_t area = conv.kernel_height * conv.kernel_width;
        const int64_t h =
            n / conv.out_width * conv.stride_height - conv.pad_top + tap % area / conv.kernel_width;
        const int64_t v =
            n % conv.out_width * conv.stride_width - conv.pad_left + tap % area % conv.kernel_width;
        if (h < 0 || h >= conv.height || v < 0 || v >= conv.width) continue;
        const auto in = static_cast<std::size_t>((tap / area * conv.height + h) * conv.width + v);
        const auto weight = static_cast<std::size_t>(o * conv.taps() + tap);
        exact.y[out] += static_cast<double>(x[in]) * w[weight];
        exact.dx[in] += static_cast<double>(dy[out]) * w[weight];
        exact.dw[static_cast<std::size_t>(tap * conv.out_channels + o)] +=
            static_cast<double>(dy[out]) * x[in];
      }
    }
  }
  return exact;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want,
                 const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 1e-4) << what << ", element " << i;
  }
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

TEST(ConvKernels, MatchTheDefinitionOnEverySet) {
  for (const Sizes& sizes : kSizes) {
    const Conv conv = conv_of(sizes);
    const auto x = values(sizes.channels * sizes.height * sizes.width, 1);
    const auto w = values(sizes.filters * conv.taps(), 2);
    const auto bias = values(sizes.filters, 3);
    const auto dy = values(sizes.filters * conv.positions(), 4);
    const Exact exact = defined(conv, x, w, bias, dy);
    Results fused;
    for (const Table* const* table = available(); *table != nullptr; ++table) {
      SCOPED_TRACE(std::string((*table)->name) + ", kernel " + std::to_string(sizes.kernel) +
                   " on " + std::to_string(sizes.height) + "x" + std::to_string(sizes.width));
      Results r = computed(**table, conv, x, w, bias, dy);
      expect_near(r.y, exact.y, "y");
      expect_near(r.dx, exact.dx, "dx");
      expect_near(r.dw, exact.dw, "dw");
      if (!(*table)->fused) continue;
      if (fused.y.empty())
        fused = std::move(r);
      else
        EXPECT_TRUE(same_bits(r.y, fused.y) && same_bits(r.dx, fused.dx) &&
                    same_bits(r.dw, fused.dw))
            << "other bits than the first set with fused multiply-adds";
    }
  }
}

}  // namespace
}  // namespace muster::kernels
