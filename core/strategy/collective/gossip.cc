#include "core/strategy/collective/gossip.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

namespace muster {
namespace {

constexpr std::array<std::pair<Topology, const char*>, 5> kNames = {{
    {Topology::kRing, "ring"},
    {Topology::kTorus, "torus"},
    {Topology::kComplete, "complete"},
    {Topology::kExponential, "exponential"},
    {Topology::kStar, "star"},
}};

// Elements whose sums are kept at once.
constexpr std::size_t kBlock = 1024;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// A graph under construction: no loops, no double edges.
class Edges {
 public:
  explicit Edges(std::int64_t workers) : of_(index(std::max<std::int64_t>(workers, 0))) {}

  void add(std::int64_t a, std::int64_t b) {
    if (a == b) return;
    of_[index(a)].insert(b);
    of_[index(b)].insert(a);
  }

  Neighbours neighbours() const {
    Neighbours result;
    result.reserve(of_.size());
    for (const auto& others : of_) result.emplace_back(others.begin(), others.end());
    return result;
  }

 private:
  std::vector<std::set<std::int64_t>> of_;
};

// The largest divisor that is at most the square root.
std::int64_t rows_of_torus(std::int64_t workers) {
  std::int64_t rows = 1;
  for (std::int64_t divisor = 2; divisor * divisor <= workers; ++divisor) {
    if (workers % divisor == 0) rows = divisor;
  }
  return rows;
}

}  // namespace

Result<Topology> topology_from(const std::string& name, const std::string& where) {
  std::string known;
  for (const auto& [topology, its_name] : kNames) {
    if (name == its_name) return topology;
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", its_name);
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{}: unknown topology \"{}\"; known are {}", where, name, known),
               "bad_field"};
}

std::string to_string(Topology topology) {
  return std::find_if(kNames.begin(), kNames.end(),
                      [&](const auto& entry) { return entry.first == topology; })
      ->second;
}

Neighbours neighbours_of(Topology topology, std::int64_t workers) {
  if (topology == Topology::kTorus) {
    const std::int64_t rows = rows_of_torus(workers);
    return torus(rows, workers / rows);
  }
  Edges edges(workers);
  for (std::int64_t i = 0; i < workers; ++i) {
    switch (topology) {
      case Topology::kTorus:  // above
        break;
      case Topology::kRing:
        edges.add(i, (i + 1) % workers);
        break;
      case Topology::kComplete:
        for (std::int64_t other = i + 1; other < workers; ++other) edges.add(i, other);
        break;
      case Topology::kExponential:
        for (std::int64_t jump = 1; jump < workers; jump *= 2) edges.add(i, (i + jump) % workers);
        break;
      case Topology::kStar:
        edges.add(0, i);
        break;
    }
  }
  return edges.neighbours();
}

Neighbours torus(std::int64_t rows, std::int64_t columns) {
  Edges edges(rows * columns);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t worker = row * columns + column;
      edges.add(worker, row * columns + (column + 1) % columns);
      edges.add(worker, (row + 1) % rows * columns + column);
    }
  }
  return edges.neighbours();
}

Neighbours path(std::int64_t workers) {
  Edges edges(workers);
  for (std::int64_t i = 0; i + 1 < workers; ++i) edges.add(i, i + 1);
  return edges.neighbours();
}

MixingWeights metropolis_weights(const Neighbours& neighbours) {
  MixingWeights weights;
  for (const auto& others : neighbours) {
    std::vector<double> row;
    double sum = 0;
    for (const std::int64_t other : others) {
      const std::size_t degree = std::max(others.size(), neighbours[index(other)].size());
      row.push_back(1 / (1 + static_cast<double>(degree)));
      sum += row.back();
    }
    weights.of_neighbours.push_back(std::move(row));
    weights.own.push_back(1 - sum);
  }
  return weights;
}

void gossip_step(const Neighbours& neighbours, const MixingWeights& weights,
                 std::span<const std::span<const float>> before,
                 std::span<const std::span<float>> after) {
  std::array<double, kBlock> sums{};
  for (std::size_t worker = 0; worker < before.size(); ++worker) {
    // Everyone it hears, itself included, in order of worker numbers.
    std::vector<std::pair<std::size_t, double>> heard = {{worker, weights.own[worker]}};
    for (std::size_t k = 0; k < neighbours[worker].size(); ++k) {
      heard.emplace_back(index(neighbours[worker][k]), weights.of_neighbours[worker][k]);
    }
    std::sort(heard.begin(), heard.end());
    const std::size_t size = before[worker].size();
    for (std::size_t begin = 0; begin < size; begin += kBlock) {
      const std::size_t n = std::min(kBlock, size - begin);
      std::fill_n(sums.begin(), n, 0.0);
      for (const auto& [other, weight] : heard) {
        const float* x = before[other].data() + begin;
        for (std::size_t i = 0; i < n; ++i) sums[i] += weight * static_cast<double>(x[i]);
      }
      float* y = after[worker].data() + begin;
      for (std::size_t i = 0; i < n; ++i) y[i] = static_cast<float>(sums[i]);
    }
  }
}

double consensus_distance(std::span<const std::span<const float>> vectors) {
  if (vectors.empty()) return 0;
  const double workers = static_cast<double>(vectors.size());
  const std::size_t size = vectors.front().size();
  std::array<double, kBlock> means{};
  double squares = 0;
  for (std::size_t begin = 0; begin < size; begin += kBlock) {
    const std::size_t n = std::min(kBlock, size - begin);
    std::fill_n(means.begin(), n, 0.0);
    for (const auto vector : vectors) {
      for (std::size_t i = 0; i < n; ++i) means[i] += static_cast<double>(vector[begin + i]);
    }
    for (std::size_t i = 0; i < n; ++i) means[i] /= workers;
    for (const auto vector : vectors) {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double difference = static_cast<double>(vector[begin + i]) - means[i];
        sum += difference * difference;
      }
      squares += sum;
    }
  }
  return std::sqrt(squares / workers);
}

}  // namespace muster
