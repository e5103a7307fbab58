#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/aggregate/update_values.h"
#include "core/base/file.h"
#include "core/tensor/safetensors.h"

// The values of checked bodies, decoded when they are read. Only for decode.cc, which does the
// checking.
namespace muster {

// Elements of a layout that lie one after another.
struct FloatPiece {
  std::int64_t begin = 0;
  std::int64_t size = 0;
  std::size_t at = 0;  // bytes from the start of the file
};

// n values of F32, F16 or BF16 at any alignment as float32.
void decode_floats(Dtype dtype, const std::byte* from, std::int64_t n, float* to);

// Where all values lie as float32 in one piece, or those that are asked for do, they are given in
// place.
//   pieces  cover the layout
ValuesPtr make_float_body(MappedFile file, LayoutPtr layout, Dtype dtype,
                          std::vector<FloatPiece> pieces);
//   data    where the bytes begin
//   scales  one a tensor
ValuesPtr make_int8_body(MappedFile file, LayoutPtr layout, std::size_t data,
                         std::vector<float> scales);

// Elements of a model whose indices are searched, and given back, together.
inline constexpr std::int64_t kTopKStretch = 65'536;

//   data    where rising indices begin, followed by as many values
//   places  of the first index that is not below s * kTopKStretch, for every s from 0 until that is
//           no longer below the number of elements: the last is the number of indices
ValuesPtr make_top_k_body(MappedFile file, LayoutPtr layout, std::size_t data,
                          std::vector<std::int64_t> places);

}  // namespace muster
