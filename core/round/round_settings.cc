#include "core/round/round_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace muster {
namespace {

constexpr std::int64_t kMostUpdates = 1'000'000;
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

// target_updates where every round waits for its devices.
void read_target(JsonObject& object, RoundSettings& settings) {
  const std::int64_t most = default_target_updates(settings.selection, settings.num_clients);
  settings.target_updates = object.integer("target_updates", most, {1, kMostUpdates});
  if (settings.target_updates > most) {
    object.fail("target_updates",
                fmt::format("{}, but the selection gives at most {} of {} devices",
                            settings.target_updates, most, settings.num_clients));
  }
}

// target_updates where a round is a buffer.
void read_buffer(JsonObject& object, RoundSettings& settings, const AggregationNeeds& needs) {
  settings.asynchronous = true;
  settings.target_updates = object.integer("target_updates", needs.buffer_size, {1, kMostUpdates});
  if (settings.target_updates != needs.buffer_size) {
    object.fail("target_updates",
                fmt::format("{}, but {} fills a buffer of {}; leave it out",
                            settings.target_updates, needs.rule, needs.buffer_size));
  } else if (needs.buffer_size > settings.num_clients) {
    object.fail("target_updates",
                fmt::format("{} is the buffer's size, but no more than num_clients, which is {}, "
                            "devices train at once and each counts once in a buffer",
                            needs.buffer_size, settings.num_clients));
  }
}

// Over-selection belongs to rounds that invite all their devices at once.
void check_asynchronous(JsonObject& object, const RoundSettings& settings,
                        const AggregationNeeds& needs) {
  if (settings.over_selection != 1) {
    object.fail("over_selection",
                fmt::format("{}, but {} keeps num_clients devices training all the time, wanted 1",
                            settings.over_selection, needs.rule));
  }
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
                                               const ClientSelection& selection,
                                               const AggregationNeeds& needs) {
  RoundSettings settings;
  settings.num_clients = num_clients;
  settings.selection = selection;

  JsonObject object(json, where);
  if (needs.buffer_size > 0) {
    read_buffer(object, settings, needs);
  } else {
    read_target(object, settings);
  }
  if (settings.target_updates < needs.fewest_updates) {
    object.fail("target_updates",
                fmt::format("{}, but {} needs at least {} updates", settings.target_updates,
                            needs.rule, needs.fewest_updates));
  }
  const std::int64_t fewest =
      std::max(default_min_updates(settings.target_updates), needs.fewest_updates);
  settings.min_updates = object.integer("min_updates", fewest, {1, kMostUpdates});
  if (settings.min_updates > settings.target_updates) {
    object.fail("min_updates", fmt::format("{}, wanted at most target_updates, which is {}",
                                           settings.min_updates, settings.target_updates));
  }
  if (settings.min_updates < needs.fewest_updates) {
    object.fail("min_updates", fmt::format("{}, but {} needs at least {} updates",
                                           settings.min_updates, needs.rule, needs.fewest_updates));
  }
  settings.over_selection = object.number("over_selection", settings.over_selection, {1.0, 10.0});
  settings.selection_window = read_seconds(object, "selection_window_s", settings.selection_window,
                                           kSelectionWindowSeconds);
  settings.deadline = read_seconds(object, "deadline_s", settings.deadline, kDeadlineSeconds);
  settings.max_attempts = object.integer("max_attempts", settings.max_attempts, {1, 1000});
  if (settings.asynchronous) check_asynchronous(object, settings, needs);
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
