#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/train/data/dataset.h"

namespace muster {

// An array of the IDX format (Y. LeCun's MNIST page): two zero bytes, a type, the number of
// dimensions, each dimension as 4 bytes big-endian, then the values. Only unsigned bytes (type
// 0x08) are read.
struct IdxArray {
  Shape shape;
  std::vector<std::uint8_t> bytes;
};

struct IdxLimits {
  std::uint64_t bytes = std::uint64_t{1} << 31;  // of values
  std::size_t rank = 8;
};

// Reads a file's content, plain or gzip (told apart by its first bytes). No more is unpacked than
// the header promises, and no memory taken for a promise that the content cannot keep. Errors:
// kInvalidArgument, reason "bad_idx", with `name`, the byte where it went wrong, and why.
Result<IdxArray> parse_idx(ByteView content, const std::string& name, const IdxLimits& limits = {});

// Images [n, ...] and labels [n] from two files; a byte of an image stands for byte / scale.
// Errors: as parse_idx and read_file; also when the counts differ or there are no images.
Result<Dataset> load_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                         float scale = 255);

}  // namespace muster
