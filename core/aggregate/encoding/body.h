#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/aggregate/encoding/update_encoding.h"
#include "core/tensor/safetensors.h"

// The file that an encoded update is before compression: docs/formats/update.md.
namespace muster::update_body {

// Bytes by which a float body's header may be longer than the canonical one.
inline constexpr std::uint64_t kHeaderSlack = 4096;

// Of the tensors of an int8 body.
inline constexpr const char* kQuantised = "q/";
inline constexpr const char* kScale = "scale/";

// float32, float16, bfloat16: what a model's tensor becomes. Else the dtype of "q/<tensor>" or
// "values".
Dtype dtype_of(UpdateEncoding::Format format);

// The tensors in the order of their data, with their places: those of the canonical header.
std::vector<SafetensorsTensor> tensors_of(const UpdateEncoding& encoding,
                                          const StateLayout& layout);

}  // namespace muster::update_body
