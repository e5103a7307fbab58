#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/base/bytes.h"
#include "core/base/json.h"

namespace muster {
namespace {

// Levenshtein's distance of two short texts.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row.back();
}

// " (did you mean "mu"?)", or nothing when no known word is near.
std::string suggestion(std::string_view found, const std::vector<std::string>& known) {
  constexpr std::size_t kNear = 2;
  const std::string* best = nullptr;
  std::size_t best_distance = kNear + 1;
  for (const std::string& word : known) {
    if (std::max(word.size(), found.size()) - std::min(word.size(), found.size()) > kNear) continue;
    const std::size_t distance = edit_distance(found, word);
    // Two edits turn any word of two letters into any other.
    if (distance < best_distance && distance < std::max(word.size(), found.size())) {
      best = &word;
      best_distance = distance;
    }
  }
  return best == nullptr ? "" : fmt::format(" (did you mean \"{}\"?)", *best);
}

std::string listed(std::vector<std::string> words) {
  std::sort(words.begin(), words.end());
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

JsonObject::JsonObject(const Json& json, std::string where)
    : json_(json), where_(std::move(where)) {
  if (json_.is_object()) return;
  error_ = Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: {} found, an object is wanted",
                             where_.empty() ? "the value" : where_, describe(json_)),
                 "bad_field"};
}

void JsonObject::fail(std::string_view key, std::string message) {
  if (error_) return;
  error_ = Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}{}{}: {}", where_, where_.empty() ? "" : ".", key, message),
                 "bad_field"};
}

void JsonObject::wrong_type(std::string_view key, const Json& found, std::string_view wanted) {
  fail(key, fmt::format("{} found, {} is wanted", describe(found), wanted));
}

// The value of a field, or nullptr: missing, or an error came before.
const Json* JsonObject::take(std::string_view key, bool required) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  if (error_) return nullptr;
  const auto found = json_.find(key);
  if (found != json_.end()) return &*found;
  if (required) fail(key, "the field is missing");
  return nullptr;
}

const Json* JsonObject::find(std::string_view key) {
  return take(key, false);
}

const Json& JsonObject::value(std::string_view key) {
  static const Json null;
  const Json* found = take(key, true);
  return found == nullptr ? null : *found;
}

std::string JsonObject::text(std::string_view key) {
  const Json* found = take(key, true);
  if (found == nullptr) return {};
  if (found->is_string()) return found->get<std::string>();
  wrong_type(key, *found, "a text");
  return {};
}

std::string JsonObject::text(std::string_view key, std::string fallback) {
  const Json* found = take(key, false);
  if (found == nullptr) return fallback;
  if (found->is_string()) return found->get<std::string>();
  wrong_type(key, *found, "a text");
  return fallback;
}

namespace {

// Only what was written as an integer, and never wrapped: -1 stays -1, 2^63 is refused.
std::optional<std::int64_t> integer_in(const Json& value, const JsonObject::IntegerRange& range) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return std::nullopt;
  }
  const auto number = value.get<std::int64_t>();
  if (number < range.low || number > range.high) return std::nullopt;
  return number;
}

std::optional<double> number_in(const Json& value, const JsonObject::NumberRange& range) {
  if (!value.is_number()) return std::nullopt;
  const auto number = value.get<double>();
  if (!(number >= range.low && number <= range.high)) return std::nullopt;  // NaN too
  return number;
}

std::string wanted_integer(const JsonObject::IntegerRange& range) {
  const JsonObject::IntegerRange all;
  if (range.low == all.low && range.high == all.high) return "an integer";
  if (range.high == all.high) return fmt::format("an integer of at least {}", range.low);
  return fmt::format("an integer from {} to {}", range.low, range.high);
}

std::string wanted_number(const JsonObject::NumberRange& range) {
  const JsonObject::NumberRange all;
  if (range.low == all.low && range.high == all.high) return "a finite number";
  if (range.high == all.high) return fmt::format("a number of at least {}", range.low);
  return fmt::format("a number from {} to {}", range.low, range.high);
}

}  // namespace

std::int64_t JsonObject::integer(std::string_view key, IntegerRange range) {
  const Json* found = take(key, true);
  if (found == nullptr) return 0;
  if (const auto number = integer_in(*found, range)) return *number;
  wrong_type(key, *found, wanted_integer(range));
  return 0;
}

std::int64_t JsonObject::integer(std::string_view key, std::int64_t fallback, IntegerRange range) {
  const Json* found = take(key, false);
  if (found == nullptr) return fallback;
  if (const auto number = integer_in(*found, range)) return *number;
  wrong_type(key, *found, wanted_integer(range));
  return fallback;
}

double JsonObject::number(std::string_view key, NumberRange range) {
  const Json* found = take(key, true);
  if (found == nullptr) return 0;
  if (const auto number = number_in(*found, range)) return *number;
  wrong_type(key, *found, wanted_number(range));
  return 0;
}

double JsonObject::number(std::string_view key, double fallback, NumberRange range) {
  const Json* found = take(key, false);
  if (found == nullptr) return fallback;
  if (const auto number = number_in(*found, range)) return *number;
  wrong_type(key, *found, wanted_number(range));
  return fallback;
}

bool JsonObject::boolean(std::string_view key) {
  const Json* found = take(key, true);
  if (found == nullptr) return false;
  if (found->is_boolean()) return found->get<bool>();
  wrong_type(key, *found, "true or false");
  return false;
}

bool JsonObject::boolean(std::string_view key, bool fallback) {
  const Json* found = take(key, false);
  if (found == nullptr) return fallback;
  if (found->is_boolean()) return found->get<bool>();
  wrong_type(key, *found, "true or false");
  return fallback;
}

std::vector<std::string> JsonObject::texts(std::string_view key,
                                           std::vector<std::string> fallback) {
  const Json* found = take(key, false);
  if (found == nullptr) return fallback;
  if (!found->is_array()) {
    wrong_type(key, *found, "an array of texts");
    return fallback;
  }
  std::vector<std::string> texts;
  for (const Json& item : *found) {
    if (!item.is_string()) {
      wrong_type(fmt::format("{}[{}]", key, texts.size()), item, "a text");
      return fallback;
    }
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::string JsonObject::choice(std::string_view key, const std::vector<std::string>& known) {
  std::string found = text(key);
  if (!ok() || std::find(known.begin(), known.end(), found) != known.end()) return found;
  fail(key, fmt::format("unknown \"{}\"{}; known: {}", printable(found, 60),
                        suggestion(found, known), listed(known)));
  return {};
}

Status JsonObject::finish() {
  if (error_) return *error_;
  for (const auto& [key, unused] : json_.items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    fail(printable(key, 60),
         fmt::format("unknown field{}; known: {}", suggestion(key, known_), listed(known_)));
    return *error_;
  }
  return {};
}

}  // namespace muster
