#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/tensor/safetensors.h"
#include "core/train/data/dataset.h"

namespace muster {

// One array of numbers in a file, as NPY and safetensors have them; the reader of the format has
// checked that `data` is as long as dtype and shape say.
struct FileArray {
  std::string name;  // for errors: "x.npy", "d.safetensors: tensor \"x\""
  Dtype dtype = Dtype::kF32;
  bool big_endian = false;
  bool first_index_fastest = false;  // Fortran's order of the elements
  Shape shape;
  ByteView data;            // must outlive the array
  std::uint64_t begin = 0;  // of the data, in bytes from the start of the file
};

struct ArrayOptions {
  // Features are divided by it. Left out: 255 for unsigned bytes, as for IDX, so that images come
  // to lie in [0, 1]; 1 for all else. Whole numbers (token ids) that are bytes want a scale of 1.
  std::optional<float> scale = {};
  // Class labels, or any numbers for regression.
  enum class Targets { kClasses, kValues };
  Targets targets = Targets::kClasses;
};

// The largest label of an array: ids travel as float32, which is exact up to 2^24.
inline constexpr std::int32_t kLargestArrayLabel = (1 << 24) - 1;

// Makes a data set of features [n, ...] and targets [n] or [n, ...] (several targets an example).
// Features may have any dtype. Integers that fit are kept as bytes or 16-bit words, all others as
// floats (64-bit values are rounded to nearest). Class labels want an integer dtype and lie from 0
// to kLargestArrayLabel; values may have any.
// Errors: kInvalidArgument, reason `reason`, with the array's name, the byte in its file and the
// index in the array: for shapes that do not fit, values that are not finite as float32, labels out
// of range, booleans that are neither 0 nor 1.
Result<Dataset> dataset_from_arrays(const FileArray& features, const FileArray& targets,
                                    const ArrayOptions& options, const std::string& reason);

}  // namespace muster
