#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/strategy/description/model_parallel.h"
#include "tests/core/strategy/strategy_support.h"

// Models and cuts for the tests of model parallelism.
namespace muster::strategies {

// Five layers with a residual connection from act1 to sum.
inline Json residual_model(Json loss = {{"type", "softmax_cross_entropy"}}) {
  return training::model_with({{{"id", "fc1"}, {"op", "dense"}, {"units", 8}},
                               {{"id", "act1"}, {"op", "tanh"}},
                               {{"id", "fc2"}, {"op", "dense"}, {"units", 8}},
                               {{"id", "act2"}, {"op", "tanh"}},
                               {{"id", "sum"}, {"op", "add"}, {"inputs", {"act2", "act1"}}},
                               {{"id", "fc3"}, {"op", "dense"}, {"units", 2}}},
                              std::move(loss));
}

// Node ids by partition; partition i is for "worker-<i>".
using Cut = std::vector<std::vector<std::string>>;

inline ModelParallel model_parallel(const Cut& cut,
                                    decltype(ModelParallel::communication) how = DirectExchange{}) {
  ModelParallel strategy{.partitions = {}, .communication = how};
  for (const auto& nodes : cut) {
    strategy.partitions.push_back(
        {.node_ids = nodes, .target = "worker-" + std::to_string(strategy.partitions.size())});
  }
  return strategy;
}

inline const Cut kTwoPieces{{"fc1", "act1"}, {"fc2", "act2", "sum", "fc3"}};
inline const Cut kThreePieces{{"fc1", "act1"}, {"fc2", "act2"}, {"sum", "fc3"}};
inline const Cut kTwoInterleaved{{"fc1", "fc2", "sum"}, {"act1", "act2", "fc3"}};
inline const Cut kThreeInterleaved{{"fc1", "act2"}, {"act1", "sum"}, {"fc2", "fc3"}};
inline const Cut kMiddleOnly{{"fc2"}};

}  // namespace muster::strategies
