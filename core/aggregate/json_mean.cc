#include "core/aggregate/json_mean.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "core/aggregate/long_accumulator.h"
#include "core/base/bytes.h"

namespace muster {
namespace {

constexpr int kMostLevels = 64;
constexpr std::int64_t kMostExamples = std::int64_t{1} << 53;

// --- what fits ---

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

Error differs(const std::string& place, const std::string& what, std::string reason) {
  return {ErrorCode::kInvalidArgument, fmt::format("\"{}\": {}", printable(place), what),
          std::move(reason)};
}

Status check_fits(const Json& wanted, const Json& found, const std::string& place, int level);

Status check_object(const Json& wanted, const Json& found, const std::string& place, int level) {
  for (const auto& [key, value] : wanted.items()) {
    const auto at = found.find(key);
    if (at == found.end()) {
      return differs(child(place, key), "it is missing; the others have it", "missing_key");
    }
    MUSTER_TRY_STATUS(check_fits(value, *at, child(place, key), level + 1));
  }
  for (const auto& [key, value] : found.items()) {
    if (!wanted.contains(key)) {
      return differs(child(place, key), "the others do not have it", "extra_key");
    }
  }
  return {};
}

Status check_array(const Json& wanted, const Json& found, const std::string& place, int level) {
  if (wanted.size() != found.size()) {
    return differs(
        place,
        fmt::format("{} items, {} are wanted as the others have", found.size(), wanted.size()),
        "length_mismatch");
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    MUSTER_TRY_STATUS(check_fits(wanted[i], found[i], child(place, std::to_string(i)), level + 1));
  }
  return {};
}

// Whether a state can be averaged with another (or with itself).
Status check_fits(const Json& wanted, const Json& found, const std::string& place, int level) {
  if (level > kMostLevels) {
    return differs(place, fmt::format("deeper than {} levels", kMostLevels), "too_deep");
  }
  if (found.is_number_float() && !std::isfinite(found.get<double>())) {
    return differs(place, fmt::format("{}, a finite number is wanted", found.get<double>()),
                   "non_finite");
  }
  if (wanted.is_number() && found.is_number()) return {};
  if (wanted.is_object() && found.is_object()) return check_object(wanted, found, place, level);
  if (wanted.is_array() && found.is_array()) return check_array(wanted, found, place, level);
  if (wanted.type() != found.type()) {
    return differs(place,
                   fmt::format("{} found, {} is wanted as the others have", found.type_name(),
                               wanted.type_name()),
                   "type_mismatch");
  }
  if (wanted == found) return {};
  return differs(place,
                 fmt::format("{} found, {} is wanted: what is no number must be equal everywhere",
                             describe(found), describe(wanted)),
                 "value_mismatch");
}

// --- the mean of numbers ---

struct Weighted {
  const Json* state = nullptr;
  std::int64_t examples = 0;  // over 0
};

// An integer below 2^64 in two factors that LongAccumulator takes.
struct Halves {
  double high = 0;
  double low = 0;

  explicit Halves(std::uint64_t value)
      : high(static_cast<double>(value >> 32) * 0x1p32),
        low(static_cast<double>(value & 0xffffffff)) {}
};

// sum += factor * value, exactly.
void add_product(LongAccumulator& sum, std::int64_t factor, double value) {
  const Halves halves(static_cast<std::uint64_t>(std::abs(factor)));
  const double sign = factor < 0 ? -1 : 1;
  sum.add(sign * halves.high, value);
  sum.add(sign * halves.low, value);
}

// sum += factor * number, exactly.
void add_product(LongAccumulator& sum, std::int64_t factor, const Json& number) {
  if (number.is_number_float()) {
    add_product(sum, factor, number.get<double>());
    return;
  }
  const bool negative = !number.is_number_unsigned() && number.get<std::int64_t>() < 0;
  // 0 - x as unsigned is right for the lowest integer too.
  const std::uint64_t magnitude = negative
                                      ? 0 - static_cast<std::uint64_t>(number.get<std::int64_t>())
                                      : number.get<std::uint64_t>();
  const Halves halves(magnitude);
  add_product(sum, negative ? -factor : factor, halves.high);
  add_product(sum, negative ? -factor : factor, halves.low);
}

// The double nearest to sum / divisor, ties to even. `twice` is twice the sum.
double nearest_quotient(LongAccumulator twice, std::int64_t divisor) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kLargest = std::numeric_limits<double>::max();
  const LongAccumulator::Approximate top = twice.approximate();
  if (top.fraction == 0) return 0;
  // The sign of sum / divisor - (a + b) / 2.
  const auto side = [&](double a, double b) {
    LongAccumulator rest = twice;
    add_product(rest, -divisor, a);
    add_product(rest, -divisor, b);
    return rest.sign();
  };
  double low = std::ldexp(top.fraction / static_cast<double>(divisor), top.exponent - 1);
  low = std::clamp(low, -kLargest, kLargest);  // a mean of finite numbers is within their range
  // `low` is within a few units in the last place; now the largest double that is not above.
  while (side(low, low) < 0) low = std::nextafter(low, -kInfinity);
  double high = std::nextafter(low, kInfinity);
  while (high <= kLargest && side(high, high) >= 0) {
    low = high;
    high = std::nextafter(low, kInfinity);
  }
  if (high > kLargest || side(low, low) == 0) return low;
  const int half = side(low, high);
  if (half != 0) return half < 0 ? low : high;
  return (std::bit_cast<std::uint64_t>(low) & 1) == 0 ? low : high;
}

// Equal in value, kind and sign of zero.
bool same_number(const Json& a, const Json& b) {
  if (a.is_number_float() != b.is_number_float() || a != b) return false;
  return !a.is_number_float() || std::signbit(a.get<double>()) == std::signbit(b.get<double>());
}

Json mean_of_numbers(const std::vector<Weighted>& states) {
  const Json& first = *states.front().state;
  if (std::all_of(states.begin(), states.end(),
                  [&](const Weighted& one) { return same_number(*one.state, first); })) {
    return first;
  }
  LongAccumulator twice;
  std::int64_t total = 0;
  for (const Weighted& one : states) {
    add_product(twice, 2 * one.examples, *one.state);
    total += one.examples;
  }
  return nearest_quotient(twice, total);
}

// --- the mean of states that fit ---

template <typename Pick>
std::vector<Weighted> each(const std::vector<Weighted>& states, const Pick& pick) {
  std::vector<Weighted> picked;
  picked.reserve(states.size());
  for (const Weighted& one : states) picked.push_back({&pick(*one.state), one.examples});
  return picked;
}

Json mean_of(const std::vector<Weighted>& states) {
  const Json& first = *states.front().state;
  if (first.is_number()) return mean_of_numbers(states);
  if (first.is_object()) {
    Json mean = Json::object();
    for (const auto& [key, unused] : first.items()) {
      const std::string& name = key;
      mean[name] =
          mean_of(each(states, [&](const Json& state) -> const Json& { return state.at(name); }));
    }
    return mean;
  }
  if (first.is_array()) {
    Json mean = Json::array();
    for (std::size_t i = 0; i < first.size(); ++i) {
      mean.push_back(
          mean_of(each(states, [&](const Json& state) -> const Json& { return state.at(i); })));
    }
    return mean;
  }
  return first;
}

Error finished_error() {
  return {ErrorCode::kFailedPrecondition, "JSON mean: finished already; one object serves one mean",
          "finished"};
}

}  // namespace

Status JsonMean::accumulate(const std::string& contributor, Json state, std::int64_t examples) {
  if (finished_) return finished_error();
  const std::string name = fmt::format("contribution of {}", printable(contributor));
  if (entries_.contains(contributor)) {
    return Error{ErrorCode::kAlreadyExists, name + ": it is in the mean already, and counts once",
                 "already_contributed"};
  }
  if (examples < 0 || examples > kMostExamples - total_examples_) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: examples {}, wanted 0 or more and at most {} in all", name,
                             examples, kMostExamples),
                 "bad_examples"};
  }
  const Json& wanted = entries_.empty() ? state : entries_.begin()->second.state;
  auto status = check_fits(wanted, state, "", 0);
  if (!status) return with_context(std::move(status).error(), name);
  entries_.emplace(contributor, Entry{std::move(state), examples});
  total_examples_ += examples;
  return {};
}

Result<Json> JsonMean::finish() {
  if (finished_) return finished_error();
  std::vector<Weighted> states;
  for (const auto& [unused, entry] : entries_) {
    if (entry.examples > 0) states.push_back({&entry.state, entry.examples});
  }
  if (states.empty()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "JSON mean: no contributor with at least one example, so there is nothing to "
                 "average",
                 "no_contributors"};
  }
  Json mean = mean_of(states);
  finished_ = true;
  entries_.clear();
  return mean;
}

}  // namespace muster
