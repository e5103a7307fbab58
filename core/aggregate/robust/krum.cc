#include "core/aggregate/robust/krum.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace muster {
namespace {

// Rows that a worker takes at once.
constexpr std::int64_t kGrain = 8;

// For each row the others, nearest first. Equal distances may stand in any order: sums of them have
// equal bits.
std::vector<std::int32_t> neighbours_of(std::span<const double> distances, std::int64_t n,
                                        Workers& workers) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(n * (n - 1)));
  workers.for_each(n, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int32_t* const row = order.data() + i * (n - 1);
      std::int32_t* to = row;
      for (std::int64_t j = 0; j < n; ++j) {
        if (j != i) *to++ = static_cast<std::int32_t>(j);
      }
      const double* const distance = distances.data() + i * n;
      std::sort(row, to, [&](std::int32_t a, std::int32_t b) {
        return distance[a] != distance[b] ? distance[a] < distance[b] : a < b;
      });
    }
  });
  return order;
}

// The sum over the nearest `wanted` that are still there, or all when there are fewer.
double score_of(const double* distance, const std::int32_t* nearest, std::int64_t others,
                std::int64_t wanted, const std::vector<char>& there) {
  double score = 0;
  for (std::int64_t at = 0; at < others && wanted > 0; ++at) {
    if (there[static_cast<std::size_t>(nearest[at])] == 0) continue;
    score += distance[nearest[at]];
    --wanted;
  }
  return score;
}

}  // namespace

std::vector<double> krum_scores(std::span<const double> distances, std::int64_t n, std::int64_t f,
                                Workers& workers) {
  std::vector<double> scores(static_cast<std::size_t>(n));
  const std::vector<std::int32_t> order = neighbours_of(distances, n, workers);
  const std::vector<char> there(static_cast<std::size_t>(n), 1);
  for (std::int64_t i = 0; i < n; ++i) {
    scores[static_cast<std::size_t>(i)] =
        score_of(distances.data() + i * n, order.data() + i * (n - 1), n - 1, n - f - 2, there);
  }
  return scores;
}

std::vector<std::int64_t> lowest_scores(std::span<const double> scores, std::int64_t wanted) {
  std::vector<std::int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[static_cast<std::size_t>(a)] < scores[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(wanted));
  return order;
}

std::vector<std::int64_t> bulyan_selection(std::span<const double> distances, std::int64_t n,
                                           std::int64_t f, Workers& workers) {
  const std::vector<std::int32_t> order = neighbours_of(distances, n, workers);
  std::vector<char> there(static_cast<std::size_t>(n), 1);
  std::vector<double> scores(static_cast<std::size_t>(n));
  std::vector<std::int64_t> selected;
  for (std::int64_t left = n; left > 2 * f; --left) {
    const std::int64_t wanted = std::max<std::int64_t>(1, left - f - 2);
    workers.for_each(n, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (there[static_cast<std::size_t>(i)] == 0) continue;
        scores[static_cast<std::size_t>(i)] =
            score_of(distances.data() + i * n, order.data() + i * (n - 1), n - 1, wanted, there);
      }
    });
    std::int64_t best = -1;
    for (std::int64_t i = 0; i < n; ++i) {
      if (there[static_cast<std::size_t>(i)] == 0) continue;
      if (best < 0 ||
          scores[static_cast<std::size_t>(i)] < scores[static_cast<std::size_t>(best)]) {
        best = i;
      }
    }
    selected.push_back(best);
    there[static_cast<std::size_t>(best)] = 0;
  }
  return selected;
}

}  // namespace muster
