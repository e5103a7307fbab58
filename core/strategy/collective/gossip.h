#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace muster {

// Who talks to whom in decentralised training (Lian et al. 2017, D-PSGD), and how much each
// counts: Metropolis weights (Xiao, Boyd and Kim 2007), symmetric and doubly stochastic, so that
// averaging with neighbours keeps the mean and ends in consensus on every connected graph.
enum class Topology {
  kRing,         // i with i +- 1
  kTorus,        // rows x columns nearest to a square, wrapped around; a prime number is a ring
  kComplete,     // every pair
  kExponential,  // i with i +- 2^k (Assran et al. 2019), made symmetric
  kStar,         // 0 with all others
};
Result<Topology> topology_from(const std::string& name, const std::string& where);
std::string to_string(Topology topology);

// The neighbours of each worker, without itself, rising. No double edges, no loops.
using Neighbours = std::vector<std::vector<std::int64_t>>;
Neighbours neighbours_of(Topology topology, std::int64_t workers);
// A torus of these sizes; rows x columns workers.
Neighbours torus(std::int64_t rows, std::int64_t columns);
// One edge after another.
Neighbours path(std::int64_t workers);

// weights[i][k] belongs to neighbours[i][k]; 1 / (1 + max of both degrees). The worker's own weight
// is 1 minus their sum.
struct MixingWeights {
  std::vector<std::vector<double>> of_neighbours;
  std::vector<double> own;
};
MixingWeights metropolis_weights(const Neighbours& neighbours);

// One step: every vector becomes its weighted mean with its neighbours' vectors of before, computed
// in double, in order of worker numbers.
void gossip_step(const Neighbours& neighbours, const MixingWeights& weights,
                 std::span<const std::span<const float>> before,
                 std::span<const std::span<float>> after);

// sqrt(mean over workers of ||x_i - mean||^2).
double consensus_distance(std::span<const std::span<const float>> vectors);

}  // namespace muster
