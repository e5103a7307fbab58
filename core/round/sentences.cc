#include "core/round/sentences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace muster::sentences {

std::string seconds(std::chrono::milliseconds time) {
  const std::int64_t count = std::max<std::int64_t>(0, time.count());
  if (count % 1000 == 0) return fmt::format("{} s", count / 1000);
  return fmt::format("{} s", static_cast<double>(count) / 1000.0);
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string listed(std::vector<DeviceId> devices) {
  constexpr std::size_t kShown = 10;
  if (devices.empty()) return "none";
  std::sort(devices.begin(), devices.end());
  if (devices.size() <= kShown) return fmt::format("{}", fmt::join(devices, ", "));
  const auto end = devices.begin() + kShown;
  return fmt::format("{} and {} more", fmt::join(devices.begin(), end, ", "),
                     devices.size() - kShown);
}

std::string tags_wanted(const ClientSelection& selection) {
  if (selection.method != ClientSelection::Method::kByCapability) return {};
  return fmt::format(" with the {} {}", selection.required_tags.size() == 1 ? "tag" : "tags",
                     fmt::join(selection.required_tags, ", "));
}

}  // namespace muster::sentences
