#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/strategy/collective/gossip.h"

namespace muster {

// How the replicas' gradients come together.

// Every replica ends each step with the sum of all gradients and takes the same optimiser step. The
// sum is a ring all-reduce where workers reach each other (Patarasuk and Yuan 2009), else made at
// the coordinator.
//   {"method": "AllReduce"}
struct AllReduce {
  bool operator==(const AllReduce&) const = default;
};

// The coordinator holds the weights and the optimiser; workers fetch weights and send gradients.
// A step is applied when all shares of its batch are there, in order of steps. A worker may compute
// its share of step t with weights that have all steps before t - max_staleness in them (bounded
// delay: Li et al. 2014, section 3.4); 0 is the synchronous server. Every share counts once.
//   {"method": "ParameterServer", "max_staleness": 0}
struct ParameterServer {
  std::int64_t max_staleness = 0;  // in steps, 0 to 1,000
  bool operator==(const ParameterServer&) const = default;
};

// D-PSGD (Lian et al. 2017, algorithm 1) with Metropolis weights (gossip.h): x_i <- sum_j W_ij x_j
// - step(g_i), where g_i is the gradient at x_i of replica i's share times the number of replicas,
// so that their mean is the batch's gradient; with momentum and the like each replica has its own.
// Ends with the average of all.
//   {"method": "Decentralized", "topology": "ring"}
struct Decentralized {
  Topology topology = Topology::kRing;
  bool operator==(const Decentralized&) const = default;
};

// Each step, every replica computes the gradient of its share of the batch: the batch that Local
// would take, cut along dimension 0.
//   {"type": "DataParallel", "num_replicas": 4, "min_replicas": 4, "shares": [1, 1, 1, 1],
//    "aggregation": {"method": "AllReduce"}}
struct DataParallel {
  std::int64_t num_replicas = 1;  // 1 to 10,000: workers 0 to num_replicas - 1
  // Goes on with this many when workers are lost; left out: none may be lost.
  std::int64_t min_replicas = 1;
  // How much of a batch each takes, relative to the others: whole numbers, 1 to 1,000,000; left
  // out: sizes that differ by one row at most.
  std::vector<std::int64_t> shares = {};
  std::variant<AllReduce, ParameterServer, Decentralized> aggregation = AllReduce{};
};

// Reads all but "type".
Result<DataParallel> data_parallel_from_json(JsonObject& object);
Json to_json(const DataParallel& strategy);

}  // namespace muster
