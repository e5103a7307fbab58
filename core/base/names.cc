#include "core/base/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/bytes.h"

namespace muster {
namespace {

constexpr std::size_t kLongestName = 64;

// By hand: <cctype> depends on the locale.
bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > kLongestName || !is_letter_or_digit(text.front())) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-';
  });
}

Status check_name(std::string_view what, std::string_view text) {
  if (is_name(text)) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} \"{}\" is not valid: 1 to {} of letters, digits, '.', '_', '-' are "
                           "wanted, the first a letter or digit",
                           what, printable(text, 80), kLongestName),
               "bad_name"};
}

}  // namespace muster
