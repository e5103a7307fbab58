#include "core/base/bytes.h"

#include <fmt/format.h>

#include <array>

namespace muster {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// The value of every character of an alphabet; -1 for all others.
constexpr std::array<std::int8_t, 256> decoding_table(std::string_view alphabet) {
  std::array<std::int8_t, 256> table{};
  table.fill(-1);
  for (std::size_t i = 0; i < alphabet.size(); ++i) {
    table[static_cast<unsigned char>(alphabet[i])] = static_cast<std::int8_t>(i);
  }
  return table;
}

constexpr std::array<std::int8_t, 256> kHexValues = decoding_table(kHexDigits);
constexpr std::array<std::int8_t, 256> kBase64Values = decoding_table(kBase64Digits);

Error bad_encoding(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message), "bad_encoding"};
}

// One code point at the start of `text`, or a length of 0 where there is none (RFC 3629 section 4).
struct CodePoint {
  std::uint32_t value = 0;
  std::size_t length = 0;
};

CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return {};
  std::uint32_t value = first & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = (value << 6) | (byte(i) & 0x3fU);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (overlong || surrogate || value > 0x10ffff) return {};
  return {value, length};
}

// Fit to stand as it is between double quotes, on one line, in the order in which it was written.
bool is_harmless(std::uint32_t code_point) {
  if (code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0)) return false;  // C0, C1
  if (code_point == '"' || code_point == '\'' || code_point == '\\') return false;
  if (code_point >= 0x2028 && code_point <= 0x202e) return false;  // line ends, direction
  return code_point < 0x2066 || code_point > 0x2069;               // direction
}

}  // namespace

ByteView as_bytes(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t load_le64(ByteView bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

void store_le64(std::uint64_t value, std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
}

std::string hex_encode(ByteView bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kHexDigits[std::to_integer<std::size_t>(byte >> 4)];
    text += kHexDigits[std::to_integer<std::size_t>(byte & std::byte{0x0f})];
  }
  return text;
}

Result<Bytes> hex_decode(std::string_view text) {
  if (text.size() % 2 != 0) {
    return bad_encoding(
        fmt::format("hexadecimal text of {} digits: an even number is wanted", text.size()));
  }
  Bytes bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = kHexValues[static_cast<unsigned char>(text[i])];
    const int low = kHexValues[static_cast<unsigned char>(text[i + 1])];
    if (high < 0 || low < 0) {
      const std::size_t at = high < 0 ? i : i + 1;
      return bad_encoding(fmt::format("hexadecimal text has \"{}\" at {}: 0-9 and a-f are wanted",
                                      printable(text.substr(at, 1)), at));
    }
    bytes.push_back(static_cast<std::byte>(high * 16 + low));
  }
  return bytes;
}

std::string base64_encode(ByteView bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t present = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < present; ++j) {
      group |= std::to_integer<std::uint32_t>(bytes[i + j]) << (16 - 8 * j);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += j <= present ? kBase64Digits[(group >> (18 - 6 * j)) & 0x3f] : '=';
    }
  }
  return text;
}

Result<Bytes> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) {
    return bad_encoding(
        fmt::format("base64 text of {} characters: a multiple of 4 is wanted", text.size()));
  }
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  const std::size_t digits = text.size() - padding;
  Bytes bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t pending = 0;
  int pending_bits = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const int value = kBase64Values[static_cast<unsigned char>(text[i])];
    if (value < 0) {
      return bad_encoding(
          fmt::format("base64 text has \"{}\" at {}", printable(text.substr(i, 1)), i));
    }
    pending = (pending << 6) | static_cast<std::uint32_t>(value);
    pending_bits += 6;
    if (pending_bits >= 8) {
      pending_bits -= 8;
      bytes.push_back(static_cast<std::byte>(pending >> pending_bits));
      pending &= (1U << pending_bits) - 1;
    }
  }
  if (pending != 0) return bad_encoding("base64 text ends in bits that belong to no byte");
  return bytes;
}

namespace {

std::string escaped(std::string_view text, std::size_t limit, std::string_view also_harmless) {
  constexpr std::string_view kCut = "...";
  std::string out;
  std::size_t cut_at = 0;  // the longest beginning of `out` that leaves room for kCut
  while (!text.empty()) {
    const CodePoint next = first_code_point(text);
    std::string piece;
    std::size_t taken = 1;
    const bool plain =
        next.length == 1 && also_harmless.find(text.front()) != std::string_view::npos;
    if (plain || (next.length > 0 && is_harmless(next.value))) {
      taken = next.length;
      piece = text.substr(0, taken);
    } else {
      taken = std::max<std::size_t>(1, next.length);
      for (const char c : text.substr(0, taken)) {
        piece += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      }
    }
    if (out.size() + piece.size() > limit) {
      out.resize(cut_at);
      if (limit >= kCut.size()) out += kCut;
      return out;
    }
    out += piece;
    if (out.size() + kCut.size() <= limit) cut_at = out.size();
    text.remove_prefix(taken);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  return escaped(text, limit, "");
}

std::string printable_sentence(std::string_view text, std::size_t limit) {
  return escaped(text, limit, "\"'\\");
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = first_code_point(text).length;
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace muster
