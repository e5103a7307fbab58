#include "core/train/data/partition.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <string>

#include "core/base/random.h"

namespace muster {
namespace {

Error bad_partition(const std::string& message) {
  return {ErrorCode::kInvalidArgument, "partition: " + message, "bad_partition"};
}

std::vector<std::int64_t> counted(std::int64_t n) {
  std::vector<std::int64_t> items(static_cast<std::size_t>(n));
  std::iota(items.begin(), items.end(), std::int64_t{0});
  return items;
}

// Where piece i of n things in `pieces` nearly equal pieces begins.
std::int64_t piece_begin(std::int64_t n, std::int64_t pieces, std::int64_t i) {
  return n / pieces * i + std::min(i, n % pieces);
}

Status check_counts(std::int64_t examples, std::int64_t pieces, std::int64_t parts) {
  if (parts < 1 || pieces < 1) return bad_partition("the number of parts must be at least 1");
  if (examples < pieces) {
    return bad_partition(std::to_string(examples) + " examples are fewer than the " +
                         std::to_string(pieces) + " pieces wanted");
  }
  return {};
}

void sort_all(Parts& parts) {
  for (std::vector<std::int64_t>& part : parts) std::sort(part.begin(), part.end());
}

}  // namespace

Result<Parts> partition_iid(std::int64_t examples, std::int64_t parts, std::uint64_t seed) {
  MUSTER_TRY_STATUS(check_counts(examples, parts, parts));
  std::vector<std::int64_t> order = counted(examples);
  Random(derive_seed(seed, {"partition", "iid"})).shuffle(order);
  Parts result;
  for (std::int64_t i = 0; i < parts; ++i) {
    result.emplace_back(order.begin() + piece_begin(examples, parts, i),
                        order.begin() + piece_begin(examples, parts, i + 1));
  }
  sort_all(result);
  return result;
}

Result<Parts> partition_shards(std::span<const std::int32_t> labels, std::int64_t parts,
                               std::int64_t per_part, std::uint64_t seed) {
  if (per_part < 1 || per_part > 1'000'000 || parts > 1'000'000'000) {
    return bad_partition(std::to_string(per_part) + " pieces for each of " + std::to_string(parts) +
                         " parts is out of range");
  }
  const auto examples = static_cast<std::int64_t>(labels.size());
  const std::int64_t pieces = parts * per_part;
  MUSTER_TRY_STATUS(check_counts(examples, pieces, parts));
  std::vector<std::int64_t> order = counted(examples);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return labels[static_cast<std::size_t>(a)] < labels[static_cast<std::size_t>(b)];
  });
  std::vector<std::int64_t> deal = counted(pieces);
  Random(derive_seed(seed, {"partition", "shards"})).shuffle(deal);
  Parts result(static_cast<std::size_t>(parts));
  for (std::size_t i = 0; i < deal.size(); ++i) {
    std::vector<std::int64_t>& part = result[i / static_cast<std::size_t>(per_part)];
    part.insert(part.end(), order.begin() + piece_begin(examples, pieces, deal[i]),
                order.begin() + piece_begin(examples, pieces, deal[i] + 1));
  }
  sort_all(result);
  return result;
}

Result<Parts> partition_dirichlet(std::span<const std::int32_t> labels, std::int64_t parts,
                                  double alpha, std::uint64_t seed) {
  MUSTER_TRY_STATUS(check_counts(static_cast<std::int64_t>(labels.size()), 1, parts));
  if (!(alpha >= 1e-4 && alpha <= 1e6)) {
    return bad_partition("alpha is " + std::to_string(alpha) + ", wanted 0.0001 to 1000000");
  }
  std::map<std::int32_t, std::vector<std::int64_t>> classes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    classes[labels[i]].push_back(static_cast<std::int64_t>(i));
  }
  Random random(derive_seed(seed, {"partition", "dirichlet"}));
  Parts result(static_cast<std::size_t>(parts));
  std::vector<double> shares(result.size());
  for (auto& [label, members] : classes) {
    random.shuffle(members);
    double sum = 0;
    for (double& share : shares) sum += share = random.gamma(alpha);
    if (!(sum > 0)) {
      // All draws of a tiny alpha fell under the smallest double: the limit is one part with
      // everything.
      std::fill(shares.begin(), shares.end(), 0.0);
      shares[random.below(shares.size())] = sum = 1;
    }
    const auto n = static_cast<double>(members.size());
    double before = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      before += shares[i];
      const bool last = i + 1 == shares.size();
      const auto cut = static_cast<std::size_t>(std::round(std::min(1.0, before / sum) * n));
      const std::size_t end = last ? members.size() : std::clamp(cut, begin, members.size());
      result[i].insert(result[i].end(), members.begin() + static_cast<std::ptrdiff_t>(begin),
                       members.begin() + static_cast<std::ptrdiff_t>(end));
      begin = end;
    }
  }
  sort_all(result);
  return result;
}

}  // namespace muster
