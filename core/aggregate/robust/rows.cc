#include "core/aggregate/robust/rows.h"

#include <algorithm>

namespace muster {
namespace {

// A 64 KiB window of float32, the widest element in which updates lie.
constexpr std::int64_t kAround = 16384;

}  // namespace

Rows rows_of(std::span<const Contribution> contributions) {
  Rows rows;
  rows.reserve(contributions.size());
  for (const Contribution& contribution : contributions) rows.push_back(contribution.values.get());
  return rows;
}

void release_around(const UpdateValues& row, std::int64_t begin, std::int64_t count) {
  const std::int64_t first = std::max<std::int64_t>(begin - kAround, 0);
  const std::int64_t last = std::min(begin + count + kAround, row.size());
  row.release(first, last - first);
}

void release_around(const Rows& rows, std::int64_t begin, std::int64_t count) {
  for (const UpdateValues* row : rows) release_around(*row, begin, count);
}

}  // namespace muster
