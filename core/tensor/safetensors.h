#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/tensor/state.h"

// The safetensors format (huggingface/safetensors, README "Format"): 8 bytes little-endian header
// length N, N bytes of JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ...,
// "__metadata__": {text: text}}, then the data. Offsets count from the start of the data and tile
// it exactly. docs/formats/safetensors.md says what Muster accepts and what it writes.
namespace muster {

enum class Dtype { kBool, kU8, kI8, kI16, kU16, kF16, kBF16, kI32, kU32, kF32, kF64, kI64, kU64 };

std::string_view to_string(Dtype dtype);
std::size_t size_in_bytes(Dtype dtype);

struct SafetensorsLimits {
  std::uint64_t header_bytes = 1 << 20;
  std::size_t tensors = 100'000;
  std::size_t rank = 16;
};

struct SafetensorsTensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  std::uint64_t begin = 0;  // bytes from the start of the data
  std::uint64_t end = 0;
};

// Texts beside the tensors, by name.
using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  // in order of their data
  SafetensorsMetadata metadata;
  std::uint64_t data_begin = 0;  // bytes from the start of the file
};

// Reads and checks the header of a file of `file_bytes` bytes, of which `prefix` is the beginning
// (all of it, or at least 8 + header length bytes). No memory beyond a small multiple of the header
// is taken. Errors: kInvalidArgument, reason "bad_header" (length, JSON, unknown dtype, limits) or
// "bad_layout" (offsets, shapes).
Result<SafetensorsHeader> parse_safetensors_header(ByteView prefix, std::uint64_t file_bytes,
                                                   const SafetensorsLimits& limits = {});

// A state out of a whole file in memory. F32 is taken bit for bit; F16, BF16 and F64 are converted
// (F64 rounds to nearest even and must stay finite where it was); integers and booleans are refused
// by name.
//   expected   null, or the layout that the file must have, by name and shape and with dtype F32
//   only
// Errors: as above; reason "dtype_mismatch", "missing_tensor", "extra_tensor", "shape_mismatch".
Result<StateDict> read_state(ByteView file, const LayoutPtr& expected = nullptr,
                             const SafetensorsLimits& limits = {});

// Checks a file against the layout without copying: the canonical place of each tensor's bytes. The
// view has layout.num_elements() floats in the order of the layout. Only for files that this build
// wrote or that have the canonical form; others go through read_state. Errors: as read_state;
// reason "not_canonical" when the header is not the one that write would give.
Result<std::span<const float>> view_canonical_state(ByteView file, const StateLayout& layout);

// The canonical header of a layout: 8 length bytes and JSON with tensors in layout order, no
// metadata, padded with spaces so that the data begins at a multiple of 64 bytes. Header followed
// by the buffer is the file.
std::string safetensors_header(const StateLayout& layout);

// The same for tensors of any dtype, given in the order of their data, `begin` and `end` filled in:
// what precedes the data of files that hold more than a state.
std::string safetensors_header(std::span<const SafetensorsTensor> tensors);

// The same with metadata, which stands before the tensors in order of its keys; without any it is
// the canonical header. A reader with these limits takes it.
// Errors, reason "bad_metadata": kInvalidArgument when a text is not UTF-8; kResourceExhausted when
// there is metadata and the header's length is over limits.header_bytes.
Result<std::string> safetensors_header(const StateLayout& layout,
                                       const SafetensorsMetadata& metadata,
                                       const SafetensorsLimits& limits = {});

// Length of the canonical file in bytes.
std::uint64_t safetensors_bytes(const StateLayout& layout);

// Equal states give equal bytes.
Bytes write_state(const StateDict& state);

// Equal states and equal metadata give equal bytes; without metadata they are those of the above.
// Errors: as safetensors_header.
Result<Bytes> write_state(const StateDict& state, const SafetensorsMetadata& metadata,
                          const SafetensorsLimits& limits = {});

// SHA-256 of the canonical file, without building it.
Digest state_digest(const StateDict& state);

}  // namespace muster
