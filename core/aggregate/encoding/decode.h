#pragma once

#include <filesystem>

#include "core/aggregate/encoding/update_encoding.h"
#include "core/aggregate/update_values.h"
#include "core/base/error.h"
#include "core/base/file.h"

namespace muster {

// An update as it came, ready to be read in blocks. Only the header is read here; values are
// decoded when they are asked for, so memory is a few pages of the mapped file. A compressed body
// is unpacked into a nameless temporary file in `scratch`, which may not become longer than the
// encoding and the layout say, whatever the frame claims; its window is limited to 8 MiB.
//   file      the body, whole
//   encoding  as the job says, never as the peer says
// Any sound header is taken for float32, float16 and bfloat16 (tensors in another order, metadata);
// the other formats have to be canonical.
// Errors: as read_state (core/tensor/safetensors.h): kInvalidArgument, reason "bad_header",
// "bad_layout", "dtype_mismatch" (integers where floats are wanted, and so on), "missing_tensor",
// "extra_tensor", "shape_mismatch"; "bad_compression" (no zstd frame, more bytes than it may hold,
// something after it), "bad_indices" (not rising, out of range), "non_finite" (an int8 scale that
// is negative or not finite); kResourceExhausted, "disk_full".
Result<ValuesPtr> open_update(MappedFile file, const UpdateEncoding& encoding,
                              const LayoutPtr& layout, const std::filesystem::path& scratch);

}  // namespace muster
