#include "core/round/round_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace muster {
namespace {

constexpr JsonObject::NumberRange kSelectionWindowSeconds{0.05, 86'400};
constexpr JsonObject::NumberRange kDeadlineSeconds{0.05, 604'800};

std::chrono::milliseconds read_seconds(JsonObject& object, std::string_view key,
                                       std::chrono::milliseconds fallback,
                                       JsonObject::NumberRange range) {
  const double seconds = object.number(key, static_cast<double>(fallback.count()) / 1000.0, range);
  return std::chrono::milliseconds(std::llround(seconds * 1000.0));
}

double to_seconds(std::chrono::milliseconds time) {
  return static_cast<double>(time.count()) / 1000.0;
}

}  // namespace

std::int64_t default_target_updates(const ClientSelection& selection, std::int64_t num_clients) {
  if (selection.method != ClientSelection::Method::kRandom) return num_clients;
  const double wanted = selection.fraction * static_cast<double>(num_clients);
  return std::clamp<std::int64_t>(std::llround(wanted), 1, num_clients);
}

std::int64_t default_min_updates(std::int64_t target_updates) {
  return std::max<std::int64_t>(1, (target_updates + 1) / 2);
}

std::int64_t devices_to_invite(const RoundSettings& settings) {
  const double wanted = static_cast<double>(settings.target_updates) * settings.over_selection;
  return std::max(settings.target_updates, static_cast<std::int64_t>(std::ceil(wanted - 1e-6)));
}

Result<RoundSettings> round_settings_from_json(const Json& json, const std::string& where,
                                               std::int64_t num_clients,
                                               const ClientSelection& selection) {
  RoundSettings settings;
  settings.num_clients = num_clients;
  settings.selection = selection;
  const std::int64_t most = default_target_updates(selection, num_clients);

  JsonObject object(json, where);
  settings.target_updates = object.integer("target_updates", most, {1, 1'000'000});
  if (object.ok() && settings.target_updates > most) {
    object.fail("target_updates",
                fmt::format("{}, but the selection gives at most {} of {} devices",
                            settings.target_updates, most, num_clients));
  }
  settings.min_updates =
      object.integer("min_updates", default_min_updates(settings.target_updates), {1, 1'000'000});
  if (object.ok() && settings.min_updates > settings.target_updates) {
    object.fail("min_updates", fmt::format("{}, wanted at most target_updates, which is {}",
                                           settings.min_updates, settings.target_updates));
  }
  settings.over_selection = object.number("over_selection", settings.over_selection, {1.0, 10.0});
  settings.selection_window = read_seconds(object, "selection_window_s", settings.selection_window,
                                           kSelectionWindowSeconds);
  settings.deadline = read_seconds(object, "deadline_s", settings.deadline, kDeadlineSeconds);
  settings.max_attempts = object.integer("max_attempts", settings.max_attempts, {1, 1000});
  MUSTER_TRY_STATUS(object.finish());
  return settings;
}

Json to_json(const RoundSettings& settings) {
  return {{"target_updates", settings.target_updates},
          {"min_updates", settings.min_updates},
          {"over_selection", settings.over_selection},
          {"selection_window_s", to_seconds(settings.selection_window)},
          {"deadline_s", to_seconds(settings.deadline)},
          {"max_attempts", settings.max_attempts}};
}

}  // namespace muster
