#include "core/aggregate/settings.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

Error insufficient(const AggregationSettings& settings, std::int64_t n, std::string_view bound) {
  return {ErrorCode::kFailedPrecondition,
          fmt::format("{}: {} contributors, wanted {}", describe(settings), n, bound),
          "insufficient_for_rule"};
}

// A field of a rule in a few characters.
std::string in_brief(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? fmt::format("{}", value.get<double>()) : value.dump();
}

}  // namespace

std::string describe(const AggregationSettings& settings) {
  std::string fields;
  const Json json = to_json(settings);
  for (const auto& [key, value] : json.items()) {
    if (key == "method") continue;
    fields += fmt::format("{}{}={}", fields.empty() ? "" : ", ", key, in_brief(value));
  }
  return fields.empty() ? method_name(settings)
                        : fmt::format("{}({})", method_name(settings), fields);
}

std::int64_t fewest_contributors(const AggregationSettings& settings) {
  return std::visit(Overloaded{
                        [](const Krum& krum) { return 2 * krum.f + 3; },
                        [](const MultiKrum& krum) { return std::max(2 * krum.f + 3, krum.m); },
                        [](const Bulyan& bulyan) { return 4 * bulyan.f + 3; },
                        // floor(beta n) < n / 2 for beta < 0.5, so something is always left.
                        [](const auto&) { return std::int64_t{1}; },
                    },
                    settings);
}

Status check_contributors(const AggregationSettings& settings, std::int64_t n) {
  const auto* trimmed = std::get_if<TrimmedMean>(&settings);
  if (trimmed != nullptr && !(trimmed->beta < 0.5)) {
    return insufficient(settings, n, "beta < 0.5, so that something is left");
  }
  if (n >= fewest_contributors(settings)) return {};
  return std::visit(
      Overloaded{
          [&](const Krum& krum) -> Status {
            return insufficient(
                settings, n, fmt::format("n >= 2f + 3 = {} with f = {}", 2 * krum.f + 3, krum.f));
          },
          [&](const MultiKrum& krum) -> Status {
            if (n < 2 * krum.f + 3) {
              return insufficient(
                  settings, n, fmt::format("n >= 2f + 3 = {} with f = {}", 2 * krum.f + 3, krum.f));
            }
            return insufficient(settings, n, fmt::format("n >= m = {}", krum.m));
          },
          [&](const Bulyan& bulyan) -> Status {
            return insufficient(
                settings, n,
                fmt::format("n >= 4f + 3 = {} with f = {}", 4 * bulyan.f + 3, bulyan.f));
          },
          [&](const auto&) -> Status { return insufficient(settings, n, "n >= 1"); },
      },
      settings);
}

}  // namespace muster
