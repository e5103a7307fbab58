#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace muster {

using Json = nlohmann::json;

struct JsonLimits {
  std::size_t bytes = 1 << 20;
  int depth = 16;
};

// The one reader for JSON from outside (RFC 8259). Refuses: more than `limits`, duplicate keys,
// bytes that are not UTF-8, a byte order mark, text after the value, numbers that do not fit a
// double, integers (no fraction, no exponent) that do not fit 64 bits. Depth costs no recursion.
// Memory taken is bounded by the length of the text.
// Errors: kInvalidArgument, reason "bad_json", with the byte position.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

// Both ends belong to the range.
struct JsonIntegerRange {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};
struct JsonNumberRange {
  double low = std::numeric_limits<double>::lowest();
  double high = std::numeric_limits<double>::max();
};

// Reads one JSON object field by field and refuses what nobody asked for.
//
// Lives on the stack beside the Json it reads, which must outlive it. Call `open`, then the
// readers, then `finish`. The first error is kept: later readers return their fallback or an empty
// value, and `finish` returns that first error. So a struct can be filled without a branch per
// field:
//
//   JsonObject object(json, "job.round");
//   settings.deadline_s = object.number("deadline_s", 120.0, {0.001, 86400.0});
//   settings.target = object.integer("target_updates", 10, {1, 100000});
//   MUSTER_TRY_STATUS(object.finish());
//
// Errors: kInvalidArgument, reason "bad_field"; the message carries the path
// ("job.round.deadline_s"), the value found and what was wanted; an unknown field lists the known
// ones.
class JsonObject {
 public:
  using IntegerRange = JsonIntegerRange;
  using NumberRange = JsonNumberRange;

  // `where` is the path that errors begin with. A `json` that is no object is the first error.
  JsonObject(const Json& json, std::string where);

  // Required fields.
  std::string text(std::string_view key);
  std::int64_t integer(std::string_view key, IntegerRange range = {});
  double number(std::string_view key, NumberRange range = {});
  bool boolean(std::string_view key);
  // Any value; a missing one is an error and gives null.
  const Json& value(std::string_view key);

  // Optional fields with a fallback. `null` counts as a wrong type, not as missing.
  std::string text(std::string_view key, std::string fallback);
  std::int64_t integer(std::string_view key, std::int64_t fallback, IntegerRange range);
  double number(std::string_view key, double fallback, NumberRange range);
  bool boolean(std::string_view key, bool fallback);
  std::vector<std::string> texts(std::string_view key, std::vector<std::string> fallback);
  // nullptr when missing.
  const Json* find(std::string_view key);

  // A required text out of a closed list; an unknown one is refused listing the known ones.
  std::string choice(std::string_view key, const std::vector<std::string>& known);

  // Records an error of the caller's own check on a field; the first one wins.
  void fail(std::string_view key, std::string message);

  bool ok() const { return !error_.has_value(); }
  const std::string& where() const { return where_; }

  // The first error, or an error for a field that no reader asked for.
  Status finish();

 private:
  const Json* take(std::string_view key, bool required);
  void wrong_type(std::string_view key, const Json& found, std::string_view wanted);

  const Json& json_;
  std::string where_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

// A short printable form of a value for an error message.
std::string describe(const Json& value);

}  // namespace muster
