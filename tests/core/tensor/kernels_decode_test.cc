#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "core/base/bytes.h"
#include "core/tensor/convert.h"
#include "core/tensor/kernels/kernels.h"

// Every value that there is, on every instruction set, against the plain conversion.
namespace muster::kernels {
namespace {

constexpr std::int64_t kAll = 65536;

std::vector<std::uint16_t> all_values() {
  std::vector<std::uint16_t> values;
  for (int i = 0; i < kAll; ++i) values.push_back(static_cast<std::uint16_t>(i));
  return values;
}

void expect_all(Dtype dtype, void (*const Table::*decode)(int64_t, const uint16_t*, float*)) {
  const auto values = all_values();
  std::vector<float> wanted(values.size());
  ASSERT_TRUE(convert_to_float32(dtype, std::as_bytes(std::span(values)), wanted).has_value());
  for (const auto* table = available(); *table != nullptr; ++table) {
    // From any place on, so that every part of a vector sees every value.
    for (std::int64_t begin = 0; begin < 17; ++begin) {
      std::vector<float> got(values.size(), 7.0F);
      const std::int64_t count = kAll - begin - 2;
      ((*table)->*decode)(count, values.data() + begin, got.data());
      for (std::int64_t i = 0; i < count; ++i) {
        const float want = wanted[static_cast<std::size_t>(begin + i)];
        const float found = got[static_cast<std::size_t>(i)];
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(found));
        } else {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(found), std::bit_cast<std::uint32_t>(want))
              << (*table)->name << ": " << begin + i;
        }
      }
      ASSERT_EQ(got[static_cast<std::size_t>(count)], 7.0F) << "wrote past the end";
    }
  }
}

TEST(DecodeKernels, WidenEveryHalf) {
  expect_all(Dtype::kF16, &Table::half_to_float);
}

TEST(DecodeKernels, WidenEveryBfloat) {
  expect_all(Dtype::kBF16, &Table::bfloat_to_float);
}

TEST(DecodeKernels, ScaleEveryByte) {
  std::vector<std::int8_t> values;
  for (int i = -128; i < 128; ++i) values.push_back(static_cast<std::int8_t>(i));
  for (const float scale : {1.0F, 0.1F, 3e-45F, 1e30F, 0.0F}) {
    for (const auto* table = available(); *table != nullptr; ++table) {
      for (std::size_t begin = 0; begin < 17; ++begin) {
        std::vector<float> got(257, 7.0F);
        const auto count = static_cast<std::int64_t>(values.size() - begin);
        (*table)->int8_to_float(count, scale, values.data() + begin, got.data());
        for (std::size_t i = 0; i < values.size() - begin; ++i) {
          ASSERT_EQ(got[i], static_cast<float>(values[begin + i]) * scale) << (*table)->name;
        }
        ASSERT_EQ(got[values.size() - begin], 7.0F) << "wrote past the end";
      }
    }
  }
}

}  // namespace
}  // namespace muster::kernels
