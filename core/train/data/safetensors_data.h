#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/train/data/array_data.h"
#include "core/train/data/dataset.h"

namespace muster {

// Which tensors of a file are the features and the targets.
struct TensorNames {
  std::string features;
  std::string targets;
};

struct SafetensorsDataLimits {
  std::uint64_t bytes = std::uint64_t{1} << 32;  // of a file
};

// Reads two tensors of a safetensors file (core/tensor/safetensors.h) that is in memory: features
// [n, ...] and targets [n] or [n, ...], of any dtype that dataset_from_arrays takes. Other tensors
// of the file are left alone.
// Errors: kInvalidArgument, reason "bad_header" or "bad_layout" for a malformed file, reason
// "missing_tensor", which lists those that are there, and reason "bad_tensor" for values and shapes
// that do not fit, with tensor, byte and index.
Result<Dataset> parse_safetensors_data(ByteView file, const std::string& name,
                                       const TensorNames& names, const ArrayOptions& options);

Result<Dataset> load_safetensors_data(const std::filesystem::path& path, const TensorNames& names,
                                      const ArrayOptions& options,
                                      const SafetensorsDataLimits& limits = {});

}  // namespace muster
