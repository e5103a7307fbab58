#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/round/selection.h"

namespace muster {

// The "round" object of a job plus what the strategy says. Everything has a finite default.
// 1 <= min_updates <= target_updates <= num_clients: the reader below refuses anything else and a
// RoundMachine relies on it.
struct RoundSettings {
  std::int64_t num_clients = 1;  // 1 to 1,000,000: the pool that selection draws from
  ClientSelection selection;
  std::int64_t target_updates =
      1;  // accepted updates that end Training; default: default_target_updates
  std::int64_t min_updates =
      1;  // fewest that a round may be made of; default: see default_min_updates
  double over_selection = 1.0;  // 1 to 10: invites ceil(target * over_selection)
  std::chrono::milliseconds selection_window{60'000};  // 50 ms to a day
  std::chrono::milliseconds deadline{600'000};         // 50 ms to a week, of Training
  std::int64_t max_attempts = 3;  // 1 to 1,000; then the job pauses and says what it lacks
  // Devices train at their own pace (FedBuff): a round is one buffer of updates, whatever global
  // state each was trained from. num_clients is then how many train at once. Set from the strategy.
  bool asynchronous = false;
};

// What the aggregation asks of a round.
struct AggregationNeeds {
  std::string rule = "the aggregation";  // for messages
  std::int64_t fewest_updates = 1;       // that the rule can work with
  std::int64_t buffer_size = 0;          // over 0: asynchronous rounds of so many updates
};

// What the selection asks for: the pool for All and ByCapability, round(fraction * pool), at least
// 1, for Random. It is also the most that target_updates may be.
std::int64_t default_target_updates(const ClientSelection& selection, std::int64_t num_clients);

// Half of the target, rounded up: a round must be able to end when devices have died, and a mean
// over fewer than half of the wanted devices is another experiment than the one asked for.
std::int64_t default_min_updates(std::int64_t target_updates);

// How many devices a round invites when enough have checked in: ceil(target_updates *
// over_selection), where a product within 1e-6 above a whole number counts as that number (10 * 1.1
// is 11, not 12).
std::int64_t devices_to_invite(const RoundSettings& settings);

// Reads the "round" object, unknown fields refused. `num_clients`, `selection` and `needs` come
// from the strategy. The default of min_updates is at least needs.fewest_updates. With a buffer
// target_updates is its size. Times are seconds with a fraction, rounded to milliseconds.
// Errors: as JsonObject; contradictions (min_updates over target_updates or under what the rule
// needs, a target over what the selection gives; with a buffer a target of another size, one that
// num_clients devices cannot fill, over-selection).
Result<RoundSettings> round_settings_from_json(const Json& json, const std::string& where,
                                               std::int64_t num_clients,
                                               const ClientSelection& selection,
                                               const AggregationNeeds& needs = {});

// The "round" object with every default written out; reads back to the same settings.
Json to_json(const RoundSettings& settings);

}  // namespace muster
