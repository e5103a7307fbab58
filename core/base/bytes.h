#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace muster {

using ByteView = std::span<const std::byte>;
using Bytes = std::vector<std::byte>;

// Views, no copies.
ByteView as_bytes(std::string_view text);
std::string_view as_text(ByteView bytes);

// Little-endian, as safetensors wants them. `bytes` holds at least 8.
std::uint64_t load_le64(ByteView bytes);
void store_le64(std::uint64_t value, std::span<std::byte> bytes);

// Lower-case hexadecimal; decoding takes lower case only, so that one value has one spelling.
std::string hex_encode(ByteView bytes);
Result<Bytes> hex_decode(std::string_view text);

// Base64 with padding (RFC 4648 section 4). Decoding refuses white space, missing padding and
// non-zero trailing bits, so that one value has one spelling.
std::string base64_encode(ByteView bytes);
Result<Bytes> base64_decode(std::string_view text);

// Text from outside, made safe for a log line or a terminal: control characters, bytes that are not
// UTF-8 and quotes become \xNN, and no more than `limit` characters come back.
std::string printable(std::string_view text, std::size_t limit = 120);

// The same for a whole sentence that is not put between quotes: quotes and backslashes stay as they
// are.
std::string printable_sentence(std::string_view text, std::size_t limit = 500);

// True when the text is well-formed UTF-8 (RFC 3629: no overlong form, no surrogate).
bool is_utf8(std::string_view text);

}  // namespace muster
