#include "core/aggregate/robust/sorting_network.h"

#include <algorithm>
#include <cstddef>

namespace muster {
namespace {

// Merges sorted runs of `run` rows by twos, then runs of twice that, ... Rows from `rows` on would
// hold what is above all others, so that comparators with them change nothing.
std::vector<kernels::Comparator> odd_even_merges(std::int64_t rows, std::int64_t run) {
  std::vector<kernels::Comparator> network;
  for (; run < rows; run *= 2) {
    for (std::int64_t distance = run; distance > 0; distance /= 2) {
      for (std::int64_t i = distance % run; i + distance < rows; i += 2 * distance) {
        const std::int64_t end = std::min(i + distance, rows - distance);
        for (std::int64_t low = i; low < end; ++low) {
          const std::int64_t high = low + distance;
          if (low / (2 * run) != high / (2 * run)) continue;
          network.push_back({static_cast<std::int32_t>(low), static_cast<std::int32_t>(high)});
        }
      }
    }
  }
  return network;
}

}  // namespace

std::vector<kernels::Comparator> sorting_network(std::int64_t rows, std::int64_t first,
                                                 std::int64_t last) {
  std::vector<kernels::Comparator> network = odd_even_merges(rows, kernels::kSortGroup);
  std::vector<bool> wanted(static_cast<std::size_t>(rows), false);
  for (std::int64_t row = first; row < last; ++row) wanted[static_cast<std::size_t>(row)] = true;
  // Backwards: a comparator is needed when one of its results is, and then needs both values. What
  // is needed is moved to the end of the network, which may be long.
  auto needed = network.end();
  for (auto at = network.end(); at != network.begin();) {
    --at;
    const auto low = static_cast<std::size_t>(at->low);
    const auto high = static_cast<std::size_t>(at->high);
    if (!wanted[low] && !wanted[high]) continue;
    wanted[low] = true;
    wanted[high] = true;
    *--needed = *at;
  }
  network.erase(network.begin(), needed);
  return network;
}

}  // namespace muster
