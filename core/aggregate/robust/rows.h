#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/aggregate/contribution.h"

namespace muster {

// The values of several updates, to be read side by side; views.
using Rows = std::vector<const UpdateValues*>;

Rows rows_of(std::span<const Contribution> contributions);

// With more rows than this each is given back as soon as it is read: a page that is touched brings
// up to 64 KiB of its file into memory.
inline constexpr std::int64_t kRowsKept = 512;

void release(const Rows& rows, std::int64_t begin, std::int64_t count);

}  // namespace muster
