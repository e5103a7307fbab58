#pragma once

#include <cstdint>
#include <functional>

#include "core/base/bytes.h"
#include "core/base/error.h"

// Zstandard (RFC 8878), one frame, no dictionary.
namespace muster {

// Level 1 (fast) to 19 (small). The frame has its content's length and checksum.
Result<Bytes> zstd_compress(ByteView content, int level);

// Unpacks a frame piece by piece into `sink`, never more than `limit_bytes` in all; memory is a
// window of at most 8 MiB, whatever the frame says.
// Errors, kInvalidArgument, reason "bad_compression": no frame, a damaged one, one that wants a
// dictionary or a larger window, one that unpacks to more than the limit, bytes after it; and those
// of `sink`.
Status zstd_unpack(ByteView frame, std::uint64_t limit_bytes,
                   const std::function<Status(ByteView)>& sink);

// The longest frame for so many bytes.
std::uint64_t zstd_bound(std::uint64_t content_bytes);

}  // namespace muster
