#include "core/strategy/population/search_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/exact_math.h"

namespace muster {
namespace {

constexpr JsonNumberRange kNumbers{-1e30, 1e30};
constexpr std::int64_t kLargestInteger = std::int64_t{1} << 53;  // that a double holds exactly
constexpr JsonIntegerRange kIntegers{-kLargestInteger, kLargestInteger};
constexpr std::size_t kMostEntries = 64;
constexpr std::size_t kMostValues = 1000;
constexpr std::size_t kLongestPath = 128;

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

Error bad_field(const std::string& where, std::string_view what) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}: {}", where, what), "bad_field"};
}

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts(1);
  for (const char c : path) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool is_path(const std::string& path) {
  const std::vector<std::string> parts = parts_of(path);
  return path.size() <= kLongestPath &&
         std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
           return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
             return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_';
           });
         });
}

void check_order(JsonObject& object, double low, double high) {
  if (object.ok() && low > high) {
    object.fail("low", fmt::format("{} found, a number up to \"high\", {}, is wanted", low, high));
  }
}

std::vector<double> choice_values(JsonObject& object) {
  const Json& values = object.value("values");
  std::vector<double> result;
  if (!object.ok()) return result;
  if (!values.is_array() || values.empty() || values.size() > kMostValues) {
    object.fail("values",
                fmt::format("{} found, 1 to {} numbers are wanted", describe(values), kMostValues));
    return result;
  }
  for (const Json& value : values) {
    const double number = value.is_number() ? value.get<double>() : NAN;
    if (!(number >= kNumbers.low && number <= kNumbers.high)) {
      object.fail("values", fmt::format("{} found, numbers from {} to {} are wanted",
                                        describe(value), kNumbers.low, kNumbers.high));
      break;
    }
    if (std::find(result.begin(), result.end(), number) != result.end()) {
      object.fail("values", fmt::format("{} is there twice", number));
      break;
    }
    result.push_back(number);
  }
  return result;
}

Result<Distribution> distribution_from_json(const Json& json, const std::string& where) {
  JsonObject object(json, where);
  const std::string type = object.choice("type", {"uniform", "log_uniform", "integer", "choice"});
  Distribution distribution;
  if (type == "uniform") {
    Uniform uniform{.low = object.number("low", kNumbers), .high = object.number("high", kNumbers)};
    check_order(object, uniform.low, uniform.high);
    distribution = uniform;
  } else if (type == "log_uniform") {
    LogUniform uniform{.low = object.number("low", {1e-300, kNumbers.high}),
                       .high = object.number("high", {1e-300, kNumbers.high})};
    check_order(object, uniform.low, uniform.high);
    distribution = uniform;
  } else if (type == "integer") {
    IntegerRange range{.low = object.integer("low", kIntegers),
                       .high = object.integer("high", kIntegers)};
    check_order(object, static_cast<double>(range.low), static_cast<double>(range.high));
    distribution = range;
  } else if (type == "choice") {
    distribution = Choice{choice_values(object)};
  }
  MUSTER_TRY_STATUS(object.finish());
  return distribution;
}

double as_double(std::int64_t value) {
  return static_cast<double>(value);
}

// The nearest integer in the range, and another one than before where there is one on that side:
// rounding alone would keep small integers where they are.
double perturb_integer(const IntegerRange& range, double value, double factor, bool up) {
  double next = std::round(up ? value * factor : value / factor);
  if (next == value) next += (value < 0) == up ? -1 : 1;
  return std::clamp(next, as_double(range.low), as_double(range.high));
}

double perturb_choice(const Choice& choice, double value, bool up) {
  const auto& values = choice.values;
  const auto nearest = std::min_element(values.begin(), values.end(), [&](double a, double b) {
    return std::abs(a - value) < std::abs(b - value);
  });
  if (up) return nearest + 1 == values.end() ? *nearest : *(nearest + 1);
  return nearest == values.begin() ? *nearest : *(nearest - 1);
}

// Writes a number as what was there: an integer stays one where it can.
Json number_like(const Json& before, double value) {
  if (before.is_number_integer() && value == std::floor(value) &&
      std::abs(value) <= as_double(kLargestInteger)) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

}  // namespace

Result<SearchSpace> search_space_from_json(const Json& json, const std::string& where) {
  if (!json.is_object()) {
    return bad_field(where, fmt::format("{} found, an object is wanted", describe(json)));
  }
  if (json.empty() || json.size() > kMostEntries) {
    return bad_field(where, fmt::format("{} hyperparameters found, 1 to {} are wanted", json.size(),
                                        kMostEntries));
  }
  SearchSpace space;
  for (const auto& [path, description] : json.items()) {
    if (!is_path(path)) {
      return bad_field(where, fmt::format("\"{}\" is no path of a field, wanted is one like "
                                          "\"optimizer.lr\"",
                                          printable(path, 80)));
    }
    MUSTER_TRY(Distribution distribution,
               distribution_from_json(description, fmt::format("{}.\"{}\"", where, path)));
    space.emplace(path, std::move(distribution));
  }
  return space;
}

Json to_json(const SearchSpace& space) {
  Json json = Json::object();
  for (const auto& [path, distribution] : space) {
    json[path] = std::visit(
        Overloaded{
            [](const Uniform& uniform) {
              return Json{{"type", "uniform"}, {"low", uniform.low}, {"high", uniform.high}};
            },
            [](const LogUniform& uniform) {
              return Json{{"type", "log_uniform"}, {"low", uniform.low}, {"high", uniform.high}};
            },
            [](const IntegerRange& range) {
              return Json{{"type", "integer"}, {"low", range.low}, {"high", range.high}};
            },
            [](const Choice& choice) {
              return Json{{"type", "choice"}, {"values", choice.values}};
            }},
        distribution);
  }
  return json;
}

double sample(const Distribution& distribution, Random& random) {
  return std::visit(
      Overloaded{
          [&](const Uniform& uniform) {
            const double value = uniform.low + random.uniform() * (uniform.high - uniform.low);
            return std::min(value, uniform.high);
          },
          [&](const LogUniform& uniform) {
            const double low = exact_log(uniform.low);
            const double value =
                exact_exp(low + random.uniform() * (exact_log(uniform.high) - low));
            return std::clamp(value, uniform.low, uniform.high);
          },
          [&](const IntegerRange& range) {
            const auto count = static_cast<std::uint64_t>(range.high - range.low) + 1;
            return as_double(range.low + static_cast<std::int64_t>(random.below(count)));
          },
          [&](const Choice& choice) { return choice.values[random.below(choice.values.size())]; }},
      distribution);
}

Hyperparameters sample(const SearchSpace& space, Random& random) {
  Hyperparameters values;
  for (const auto& [path, distribution] : space) values[path] = sample(distribution, random);
  return values;
}

double perturb(const Distribution& distribution, double value, double factor, Random& random) {
  const bool up = random.below(2) == 1;
  const double scaled = up ? value * factor : value / factor;
  return std::visit(
      Overloaded{
          [&](const Uniform& uniform) { return std::clamp(scaled, uniform.low, uniform.high); },
          [&](const LogUniform& uniform) { return std::clamp(scaled, uniform.low, uniform.high); },
          [&](const IntegerRange& range) { return perturb_integer(range, value, factor, up); },
          [&](const Choice& choice) { return perturb_choice(choice, value, up); }},
      distribution);
}

Result<Json> with_hyperparameters(const Json& local, const Hyperparameters& values) {
  Json result = local;
  for (const auto& [path, value] : values) {
    Json* at = &result;
    for (const std::string& part : parts_of(path)) {
      if (!at->is_object() || !at->contains(part)) {
        return bad_field("local", fmt::format("there is no \"{}\" to set: \"{}\" leads to nothing",
                                              printable(path, 80), printable(part, 80)));
      }
      at = &(*at)[part];
    }
    if (!at->is_number()) {
      return bad_field("local", fmt::format("\"{}\" is {}, a number is wanted", printable(path, 80),
                                            describe(*at)));
    }
    *at = number_like(*at, value);
  }
  return result;
}

}  // namespace muster
