#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"

namespace muster {

using DeviceId = std::string;

// A device that has checked in and waits for work.
struct Candidate {
  DeviceId device;
  std::set<std::string> tags;
  bool operator==(const Candidate&) const = default;
};

// How a round chooses among the candidates:
//   {"method": "All"} | {"method": "Random", "fraction": 0.1} | {"method": "ByCapability",
//   "required_tags": ["gpu"]}
struct ClientSelection {
  enum class Method { kAll, kRandom, kByCapability };
  Method method = Method::kAll;
  double fraction = 1.0;                   // kRandom: in (0, 1], of the pool
  std::vector<std::string> required_tags;  // kByCapability: all of them
};

Result<ClientSelection> client_selection_from_json(const Json& json, const std::string& where);
Json to_json(const ClientSelection& selection);

// Whether the device may take part at all (tags).
bool is_eligible(const ClientSelection& selection, const Candidate& candidate);

// `count` of the candidates, or all when there are fewer: a sample without replacement that depends
// only on the seed and the set of device ids, not on who checked in first. Sorted by device id.
std::vector<DeviceId> select_devices(const std::vector<Candidate>& candidates, std::size_t count,
                                     std::uint64_t seed);

}  // namespace muster
