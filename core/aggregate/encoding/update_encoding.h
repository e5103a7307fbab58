#pragma once

#include <cstdint>
#include <string>

#include "core/aggregate/update_values.h"
#include "core/base/error.h"
#include "core/base/json.h"

namespace muster {

// How updates travel, the "encoding" object of a job:
//   {"format": "float32" | "float16" | "bfloat16" | "int8" | "top_k",
//    "content": "state" | "delta",      default state; int8 and top_k: delta; top_k has no other
//    "fraction": 0.01,                  top_k, required: over 0, to 1: the share of elements sent
//    "compression": "none" | "zstd",    default none
//    "level": 3}                        zstd: 1 to 19
//
// An encoded update is a safetensors file (docs/formats/update.md):
//   float32, float16, bfloat16  the model's tensors, in that dtype, rounded to nearest even
//   int8     "q/<tensor>" I8 in the tensor's shape and "scale/<tensor>" F32 of shape []; the value
//   is
//            q * scale, scale = max |x| / 127, q rounded up or down at random so that it is right
//            on average
//   top_k    "indices" U32 [k] rising and "values" F32 [k], k = ceil(fraction * elements): the
//            elements of largest magnitude; the others are zero. What was left out is added to the
//            next update of the same device (error feedback: Stich et al. 2018, Algorithm 1)
// With compression the whole file is one zstd frame.
struct UpdateEncoding {
  enum class Format { kFloat32, kFloat16, kBFloat16, kInt8, kTopK };
  Format format = Format::kFloat32;
  UpdateContent content = UpdateContent::kState;
  double fraction = 0;
  bool compressed = false;
  std::int64_t level = 3;

  bool operator==(const UpdateEncoding&) const = default;
};

Result<UpdateEncoding> update_encoding_from_json(const Json& json, const std::string& where);
Json to_json(const UpdateEncoding& encoding);  // with every default; round-trips
// "float32", "int8 delta, zstd".
std::string describe(const UpdateEncoding& encoding);

// ceil(fraction * elements), at least 1.
std::int64_t top_k_count(double fraction, std::int64_t elements);

// Length of the canonical file that an update has before compression.
std::uint64_t encoded_bytes(const UpdateEncoding& encoding, const StateLayout& layout);
// The most bytes that a body may have on the wire.
std::uint64_t most_body_bytes(const UpdateEncoding& encoding, const StateLayout& layout);

}  // namespace muster
