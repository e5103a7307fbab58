#include "core/train/data/csv_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace muster {
namespace {

// Of a number that is out of a float's range: whether it is too small, and not too large.
bool is_tiny(std::string_view text) {
  const std::size_t e = std::min(text.find_first_of("eE"), text.size());
  std::string_view power = text.substr(std::min(e + 1, text.size()));
  const bool negative = power.starts_with('-');
  std::int64_t exponent = 0;
  power = without_plus(power);
  const auto [end, code] = std::from_chars(power.data(), power.data() + power.size(), exponent);
  if (code == std::errc::result_out_of_range) return negative;
  // How many digits stand before the point, or, negative, how many zeros behind it.
  const std::string_view digits = text.substr(0, e);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t first = std::min(digits.find_first_of("123456789"), digits.size());
  const auto places =
      static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first) + (first > point ? 1 : 0);
  return exponent < -places;
}

}  // namespace

std::string_view without_plus(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

std::optional<float> csv_number(std::string_view text) {
  text = without_plus(text);
  float value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::nullopt;
  if (code == std::errc::result_out_of_range && is_tiny(text)) {
    // A float that is no longer a normal one, or 0.
    double wide = 0;
    const auto [unused, fits] = std::from_chars(text.data(), text.data() + text.size(), wide);
    return fits == std::errc() ? static_cast<float>(wide) : 0.0F;
  }
  if (code != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace muster
