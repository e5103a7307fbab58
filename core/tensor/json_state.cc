#include "core/tensor/json_state.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/base/bytes.h"

namespace muster {
namespace {

constexpr int kLowBits = 21;
constexpr int kHighBits = 22;
constexpr std::int64_t kLargestInteger = std::int64_t{1} << 53;

Error refused(const std::string& place, const std::string& what, std::string reason) {
  return {ErrorCode::kInvalidArgument, fmt::format("\"{}\": {}", printable(place), what),
          std::move(reason)};
}

// `token` behind a JSON pointer, escaped.
std::string child(const std::string& place, const std::string& token) {
  std::string escaped;
  for (const char c : token) {
    if (c == '~') {
      escaped += "~0";
    } else if (c == '/') {
      escaped += "~1";
    } else {
      escaped += c;
    }
  }
  return place + "/" + escaped;
}

// The whole number below 2^bits that a word is.
std::optional<std::uint64_t> whole(float word, int bits) {
  const bool in_range = word >= 0 && word < std::ldexp(1.0F, bits) && !std::signbit(word);
  if (!in_range || word != std::floor(word)) return std::nullopt;
  return static_cast<std::uint64_t>(word);
}

// Walks a state beside the one whose structure it must have, and gathers its numbers.
class Reader {
 public:
  Status read(const Json& wanted, const Json& found, const std::string& place, int level) {
    if (level > kMostJsonLevels) {
      return refused(place, fmt::format("deeper than {} levels", kMostJsonLevels), "too_deep");
    }
    if (wanted.is_number() && found.is_number()) return read_number(found, place);
    if (wanted.is_object() && found.is_object()) return read_object(wanted, found, place, level);
    if (wanted.is_array() && found.is_array()) return read_array(wanted, found, place, level);
    if (wanted.type() != found.type()) {
      return refused(place,
                     fmt::format("{} found, {} is wanted", found.type_name(), wanted.type_name()),
                     "type_mismatch");
    }
    if (wanted == found) return {};
    return refused(place,
                   fmt::format("{} found, {} is wanted: what is no number is the same in all",
                               describe(found), describe(wanted)),
                   "value_mismatch");
  }

  const std::vector<double>& numbers() const { return numbers_; }

 private:
  Status read_number(const Json& found, const std::string& place) {
    if (found.is_number_float()) {
      const auto number = found.get<double>();
      if (!std::isfinite(number)) {
        return refused(place, fmt::format("{}, a finite number is wanted", number), "non_finite");
      }
      numbers_.push_back(number);
      return {};
    }
    const bool exact = found.is_number_unsigned()
                           ? found.get<std::uint64_t>() <= std::uint64_t{kLargestInteger}
                           : found.get<std::int64_t>() >= -kLargestInteger &&
                                 found.get<std::int64_t>() <= kLargestInteger;
    if (!exact) {
      return refused(place, fmt::format("{}, an integer within 2^53 is wanted", found.dump()),
                     "inexact");
    }
    numbers_.push_back(found.get<double>());
    return {};
  }

  Status read_object(const Json& wanted, const Json& found, const std::string& place, int level) {
    for (const auto& [key, value] : wanted.items()) {
      const auto at = found.find(key);
      if (at == found.end()) return refused(child(place, key), "it is missing", "missing_key");
      MUSTER_TRY_STATUS(read(value, *at, child(place, key), level + 1));
    }
    for (const auto& [key, value] : found.items()) {
      if (!wanted.contains(key)) {
        return refused(child(place, key), "there is none of that name", "extra_key");
      }
    }
    return {};
  }

  Status read_array(const Json& wanted, const Json& found, const std::string& place, int level) {
    if (wanted.size() != found.size()) {
      return refused(place,
                     fmt::format("{} items found, {} are wanted", found.size(), wanted.size()),
                     "length_mismatch");
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      MUSTER_TRY_STATUS(read(wanted[i], found[i], child(place, std::to_string(i)), level + 1));
    }
    return {};
  }

  std::vector<double> numbers_;
};

Status check_row(const float* words) {
  const std::optional<double> number = number_of(words);
  if (!number) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("the words {}, {}, {} are those of no double", words[0], words[1], words[2]),
        "bad_number"};
  }
  if (std::isfinite(*number)) return {};
  return Error{ErrorCode::kInvalidArgument, fmt::format("{}, a finite number is wanted", *number),
               "non_finite"};
}

Json number_like(const Json& wanted, double number) {
  const bool fits = number == std::floor(number) && std::abs(number) <= 0x1p53 &&
                    !(number == 0 && std::signbit(number));
  if (wanted.is_number_integer() && fits) return static_cast<std::int64_t>(number);
  return number;
}

// Puts the rows from `words` on in the places of the numbers of `json`; moves `words` past them.
Status fill(Json& json, const float*& words, const std::string& place) {
  if (json.is_number()) {
    if (auto status = check_row(words); !status) {
      return with_context(std::move(status).error(), fmt::format("\"{}\"", printable(place)));
    }
    json = number_like(json, *number_of(words));
    words += kNumberWords;
    return {};
  }
  if (json.is_object()) {
    for (auto& [key, value] : json.items()) {
      MUSTER_TRY_STATUS(fill(value, words, child(place, key)));
    }
  } else if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i) {
      MUSTER_TRY_STATUS(fill(json[i], words, child(place, std::to_string(i))));
    }
  }
  return {};
}

}  // namespace

NumberWords words_of(double number) {
  constexpr std::uint64_t kMask = (std::uint64_t{1} << kLowBits) - 1;
  const auto bits = std::bit_cast<std::uint64_t>(number);
  return {static_cast<float>(bits >> (2 * kLowBits)), static_cast<float>(bits >> kLowBits & kMask),
          static_cast<float>(bits & kMask)};
}

std::optional<double> number_of(const float* words) {
  const auto high = whole(words[0], kHighBits);
  const auto middle = whole(words[1], kLowBits);
  const auto low = whole(words[2], kLowBits);
  if (!high || !middle || !low) return std::nullopt;
  return std::bit_cast<double>(*high << (2 * kLowBits) | *middle << kLowBits | *low);
}

bool is_json_layout(const StateLayout& layout) {
  if (layout.tensors().size() != 1) return false;
  const TensorSpec& spec = layout.tensors().front();
  return spec.name == kNumbersName && spec.shape.size() == 2 && spec.shape[1] == kNumberWords;
}

Status check_numbers(std::span<const float> words, std::int64_t first) {
  const auto rows = static_cast<std::int64_t>(words.size()) / kNumberWords;
  for (std::int64_t i = 0; i < rows; ++i) {
    if (auto status = check_row(words.data() + i * kNumberWords); !status) {
      return with_context(std::move(status).error(), fmt::format("number {}", first + i));
    }
  }
  return {};
}

Result<JsonTemplate> JsonTemplate::create(Json state) {
  Reader reader;
  MUSTER_TRY_STATUS(reader.read(state, state, "", 0));
  const auto numbers = static_cast<std::int64_t>(reader.numbers().size());
  MUSTER_TRY(LayoutPtr layout,
             StateLayout::create({{std::string(kNumbersName), {numbers, kNumberWords}}}));
  return JsonTemplate(std::move(state), std::move(layout));
}

Result<StateDict> JsonTemplate::pack(const Json& state) const {
  Reader reader;
  MUSTER_TRY_STATUS(reader.read(json_, state, "", 0));
  StateDict packed(layout_);
  float* to = packed.values().data();
  for (const double number : reader.numbers()) {
    for (const float word : words_of(number)) *to++ = word;
  }
  return packed;
}

Result<Json> JsonTemplate::unpack(const StateDict& state) const {
  MUSTER_TRY_STATUS(check_same_layout(*layout_, state.layout()));
  Json json = json_;
  const float* words = state.values().data();
  MUSTER_TRY_STATUS(fill(json, words, ""));
  return json;
}

}  // namespace muster
