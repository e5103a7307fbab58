#include "core/aggregate/robust/rows.h"

namespace muster {

Rows rows_of(std::span<const Contribution> contributions) {
  Rows rows;
  rows.reserve(contributions.size());
  for (const Contribution& contribution : contributions) rows.push_back(contribution.values.get());
  return rows;
}

void release(const Rows& rows, std::int64_t begin, std::int64_t count) {
  for (const UpdateValues* row : rows) row->release(begin, count);
}

}  // namespace muster
