#pragma once

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace muster {

// All errors of a data spec: kInvalidArgument, reason "bad_data_spec".
Error bad_data_spec(const std::string& message);

// The whole text as a number, or nothing.
template <typename T>
std::optional<T> spec_number(std::string_view text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "a, b, c"
std::string joined_words(const std::vector<std::string>& words);

// The fields of a spec, "field=value;field=value", read one by one. What nobody reads is an error.
// As JsonObject: readers, then `finish`; the first error is kept and `finish` returns it.
class SpecFields {
 public:
  static Result<SpecFields> split(std::string_view text);

  std::optional<std::string> take(const std::string& key);
  // All fields of the form PREFIX.NAME, by name; `wanted` says what NAME is, for errors.
  std::map<std::string, std::string> take_named(const std::string& prefix,
                                                const std::string& wanted);
  // A list; an empty item, or one twice, is an error.
  std::vector<std::string> take_list(const std::string& key, char separator);
  std::vector<std::string> split_list(const std::string& key, std::string_view text,
                                      char separator);

  // A number in [low, high]; `out` stays as it is without the field.
  template <typename T>
  void read(const std::string& key, T low, T high, const std::string& wanted, T& out) {
    const std::optional<std::string> text = take(key);
    if (!text) return;
    const std::optional<T> value = spec_number<T>(*text);
    // The negated form also refuses a NaN.
    if (!value || !(*value >= low && *value <= high)) return fail(key, *text, wanted);
    out = *value;
  }

  // One of `names`, whose places are the values of the enumeration.
  template <typename Enum>
  void choose(const std::string& key, const std::vector<std::string>& names, Enum& out) {
    const std::optional<std::string> text = take(key);
    if (!text) return;
    const auto found = std::find(names.begin(), names.end(), *text);
    if (found == names.end()) return fail(key, *text, "one of " + joined_words(names));
    out = static_cast<Enum>(found - names.begin());
  }

  void fail(const std::string& key, std::string_view found, const std::string& wanted);
  Status finish();

 private:
  std::map<std::string, std::string> values_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

}  // namespace muster
