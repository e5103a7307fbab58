#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/digest.h"
#include "core/base/json.h"

// Readers of the kinds of field that the messages share. Like JsonObject's own they keep the first
// error in the object and then return an empty value.
namespace muster::protocol::fields {

inline constexpr JsonObject::IntegerRange kRound{1, 1'000'000};
inline constexpr JsonObject::IntegerRange kAttempt{1, 1'000};
inline constexpr JsonObject::IntegerRange kCount{0, std::int64_t{1} << 53};
inline constexpr JsonObject::IntegerRange kPort{1, 65'535};

inline constexpr std::size_t kPemBytes = 64 * 1024;

// core/base/names.h
std::string name(JsonObject& object, std::string_view key);
// 1 to `limit` bytes.
std::string bounded_text(JsonObject& object, std::string_view key, std::size_t limit);
// 64 lower-case hexadecimal digits.
Digest digest(JsonObject& object, std::string_view key);
// Decimal digits in a text, because JSON readers keep only 53 bits of a number.
std::uint64_t decimal(JsonObject& object, std::string_view key);

// Reads "protocol". Another version than kVersion is reason "version_unsupported", before any other
// error: a later version may have fields that this one does not know.
Status check_version(JsonObject& object);

}  // namespace muster::protocol::fields
