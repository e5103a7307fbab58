#pragma once

#include <span>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/tensor/safetensors.h"

namespace muster {

// Values of a safetensors tensor as float32. F32 is taken bit for bit; F16 and BF16 are widened
// exactly; F64 is rounded to nearest, ties to even, and NaN stays NaN.
//   bytes  out.size() values of `dtype`, little-endian, at any alignment
// Errors: kInvalidArgument, reason "dtype_mismatch" for integers and booleans, "non_finite" for a
// finite F64 that float32 cannot hold. After an error `out` is unspecified.
Status convert_to_float32(Dtype dtype, ByteView bytes, std::span<float> out);

}  // namespace muster
