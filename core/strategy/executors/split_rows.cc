#include "core/strategy/executors/split_rows.h"

#include <numeric>

namespace muster {

std::vector<std::int64_t> split_rows(std::int64_t count, std::span<const std::int64_t> shares) {
  const std::int64_t total = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  std::vector<std::int64_t> sizes;
  std::int64_t taken = 0;
  std::int64_t begin = 0;
  for (const std::int64_t share : shares) {
    taken += share;
    const std::int64_t end = count * taken / total;  // count is a batch's, at most 10^6
    sizes.push_back(end - begin);
    begin = end;
  }
  return sizes;
}

}  // namespace muster
