#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster {

// Cuts `count` rows into one piece after another, in the proportion of `shares` (each over 0, their
// sum at most 2^34; at least one): piece i ends with row count * (shares[0] + ... + shares[i]) /
// total, rounded down. Equal shares give sizes that differ by at most one. The sizes.
std::vector<std::int64_t> split_rows(std::int64_t count, std::span<const std::int64_t> shares);

}  // namespace muster
