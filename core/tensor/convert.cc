#include "core/tensor/convert.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace muster {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors data is little-endian, and states are copied as they lie");

// The i-th value of an array at any alignment.
template <typename T>
T load(ByteView bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

// IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. Every value fits float32, NaN
// payloads too.
float float_from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fU;
  const std::uint32_t fraction = half & 0x3ffU;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact
    const float magnitude = static_cast<float>(fraction) * 0x1.0p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide_exponent = exponent == 0x1f ? 0xffU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (fraction << 13));
}

// bfloat16 is the upper half of a float32.
float float_from_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

Status convert_doubles(ByteView bytes, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto value = load<double>(bytes, i);
    out[i] = static_cast<float>(value);
    if (std::isinf(out[i]) && !std::isinf(value)) {
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("the F64 value {} at index {} is beyond the range of float32", value, i),
          "non_finite"};
    }
  }
  return {};
}

}  // namespace

Status convert_to_float32(Dtype dtype, ByteView bytes, std::span<float> out) {
  switch (dtype) {
    case Dtype::kF32:
      if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size_bytes());
      return {};
    case Dtype::kF16:
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = float_from_half(load<std::uint16_t>(bytes, i));
      }
      return {};
    case Dtype::kBF16:
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = float_from_bfloat(load<std::uint16_t>(bytes, i));
      }
      return {};
    case Dtype::kF64:
      return convert_doubles(bytes, out);
    default:
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("dtype {} found, F32, F16, BF16 or F64 is wanted", to_string(dtype)),
                   "dtype_mismatch"};
  }
}

}  // namespace muster
