#include "core/round/selection.h"

#include <algorithm>
#include <utility>

#include "core/base/names.h"
#include "core/base/random.h"

namespace muster {
namespace {

constexpr std::size_t kMaxTags = 64;

std::vector<std::string> read_required_tags(JsonObject& object) {
  if (object.find("required_tags") == nullptr) {
    object.fail("required_tags", "missing, wanted a list of 1 to 64 tags");
    return {};
  }
  auto tags = object.texts("required_tags", {});
  if (tags.empty() || tags.size() > kMaxTags) {
    object.fail("required_tags", std::to_string(tags.size()) + " tags, wanted 1 to 64");
    return {};
  }
  for (const std::string& tag : tags) {
    if (auto status = check_name("tag", tag); !status) {
      object.fail("required_tags", status.error().message);
    }
  }
  std::sort(tags.begin(), tags.end());
  const auto twice = std::adjacent_find(tags.begin(), tags.end());
  if (twice != tags.end()) object.fail("required_tags", "tag \"" + *twice + "\" is given twice");
  return tags;
}

}  // namespace

Result<ClientSelection> client_selection_from_json(const Json& json, const std::string& where) {
  ClientSelection selection;
  JsonObject object(json, where);
  const std::string method = object.choice("method", {"All", "Random", "ByCapability"});
  if (method == "Random") {
    selection.method = ClientSelection::Method::kRandom;
    selection.fraction = object.number("fraction", {0.0, 1.0});
    if (object.ok() && selection.fraction == 0)
      object.fail("fraction", "0, wanted more than 0 and at most 1");
  } else if (method == "ByCapability") {
    selection.method = ClientSelection::Method::kByCapability;
    selection.required_tags = read_required_tags(object);
  }
  MUSTER_TRY_STATUS(object.finish());
  return selection;
}

Json to_json(const ClientSelection& selection) {
  switch (selection.method) {
    case ClientSelection::Method::kRandom:
      return {{"method", "Random"}, {"fraction", selection.fraction}};
    case ClientSelection::Method::kByCapability:
      return {{"method", "ByCapability"}, {"required_tags", selection.required_tags}};
    case ClientSelection::Method::kAll:
      break;
  }
  return {{"method", "All"}};
}

bool is_eligible(const ClientSelection& selection, const Candidate& candidate) {
  if (selection.method != ClientSelection::Method::kByCapability) return true;
  return std::all_of(selection.required_tags.begin(), selection.required_tags.end(),
                     [&](const std::string& tag) { return candidate.tags.contains(tag); });
}

std::vector<DeviceId> select_devices(const std::vector<Candidate>& candidates, std::size_t count,
                                     std::uint64_t seed) {
  std::vector<DeviceId> devices;
  devices.reserve(candidates.size());
  for (const Candidate& candidate : candidates) devices.push_back(candidate.device);
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  Random random(seed);
  random.shuffle(devices);
  if (devices.size() > count) devices.resize(count);
  std::sort(devices.begin(), devices.end());
  return devices;
}

}  // namespace muster
