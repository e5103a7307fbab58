#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/random.h"

namespace muster {

// The hyperparameters that a population searches, by the path of a field of the job's "local"
// object, with dots: "optimizer.lr", "optimizer.momentum", "batch_size".
//   {"optimizer.lr": {"type": "log_uniform", "low": 0.001, "high": 1},
//    "optimizer.momentum": {"type": "uniform", "low": 0, "high": 0.99},
//    "batch_size": {"type": "integer", "low": 8, "high": 128},
//    "optimizer.weight_decay": {"type": "choice", "values": [0, 0.0001, 0.001]}}
struct Uniform {
  double low = 0, high = 1;
};
struct LogUniform {
  double low = 1, high = 10;  // over 0
};
struct IntegerRange {
  std::int64_t low = 0, high = 1;  // both included
};
struct Choice {
  std::vector<double> values;  // 1 to 1,000, different, rising or not
};
using Distribution = std::variant<Uniform, LogUniform, IntegerRange, Choice>;
using SearchSpace = std::map<std::string, Distribution>;  // 1 to 64 entries
using Hyperparameters = std::map<std::string, double>;

// Errors: kInvalidArgument naming the field: low over high, an empty choice, an unknown type
// (listing the known), a path that is none.
Result<SearchSpace> search_space_from_json(const Json& json, const std::string& where);
Json to_json(const SearchSpace& space);

Hyperparameters sample(const SearchSpace& space, Random& random);
double sample(const Distribution& distribution, Random& random);

// Perturbation (Jaderberg et al. 2017, appendix A): times `factor` or divided by it, with equal
// chance, and kept within the range; integers are rounded, and move by at least one; a choice moves
// to a neighbour in the list.
double perturb(const Distribution& distribution, double value, double factor, Random& random);

// Puts the values into a "local" object.
// Errors: kInvalidArgument: a path that leads to nothing there, or whose value is no number.
Result<Json> with_hyperparameters(const Json& local, const Hyperparameters& values);

}  // namespace muster
