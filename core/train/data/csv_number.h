#pragma once

#include <optional>
#include <string_view>

namespace muster {

// The whole text as the nearest float: "1.5", "-3e2", "+1"; one that is too small for a float is 0.
// Nothing for what is no decimal number and for one that is too large.
std::optional<float> csv_number(std::string_view text);

// The text without a plus sign in front of its digits, which std::from_chars does not take.
std::string_view without_plus(std::string_view text);

}  // namespace muster
