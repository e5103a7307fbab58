#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "core/base/error.h"
#include "core/base/json.h"

// The rules by which updates become the next global state: the "aggregation" object of a federated
// strategy, told apart by its "method". docs/aggregation.md has each with formula and source.
// Fields without a default there are required. A method or field that this build does not know is
// an error that lists the known ones.
namespace muster {

struct FedAvg {};       // {"method": "FedAvg"}
struct UniformMean {};  // {"method": "UniformMean"}
struct FedProx {        // {"method": "FedProx", "mu": 0.01}
  double mu = 0;        // 0 to 1e6; 0 is FedAvg
};
struct FedNova {  // {"method": "FedNova", "tau_eff": "a_norm"}
  enum class TauEff { kNorm, kSteps };
  TauEff tau_eff = TauEff::kNorm;  // "a_norm" (default) or "steps"
};
struct QFedAvg {  // {"method": "q-FedAvg", "q": 1}
  double q = 1;   // 0 to 100; 0 is a uniform mean
};
struct FedAvgM {          // {"method": "FedAvgM"}
  double server_lr = 1;   // over 0, to 1e6
  double momentum = 0.9;  // 0 to below 1
  bool nesterov = false;
};
struct FedAdaptive {  // {"method": "FedAdagrad" | "FedAdam" | "FedYogi"}
  enum class Kind { kAdagrad, kAdam, kYogi };
  Kind kind = Kind::kAdam;
  double server_lr = 0.1;  // over 0, to 1e6
  double beta1 = 0.9;      // 0 to below 1; default 0 for FedAdagrad
  double beta2 = 0.99;     // 0 to below 1; FedAdagrad has none
  double tau = 1e-3;       // over 0, to 1e6
};
struct Scaffold {        // {"method": "SCAFFOLD"}
  double server_lr = 1;  // over 0, to 1e6
};
struct FedDyn {      // {"method": "FedDyn", "alpha": 0.1}
  double alpha = 0;  // over 0, to 1e6
};
struct Median {};     // {"method": "Median"}
struct TrimmedMean {  // {"method": "TrimmedMean", "beta": 0.1}
  double beta = 0;    // 0 to below 0.5
};
struct Krum {          // {"method": "Krum", "f": 2}
  std::int64_t f = 0;  // 0 to 1,000,000
};
struct MultiKrum {     // {"method": "MultiKrum", "f": 2, "m": 5}
  std::int64_t f = 0;  // 0 to 1,000,000
  std::int64_t m = 1;  // 1 to 1,000,000
};
struct Bulyan {        // {"method": "Bulyan", "f": 1}
  std::int64_t f = 0;  // 0 to 1,000,000
};
struct GeometricMedian {              // {"method": "GeometricMedian"}
  double nu = 1e-6;                   // over 0, to 1e6
  std::int64_t max_iterations = 100;  // 1 to 10,000
  double tolerance = 1e-6;  // 0 to 1: ends when no coefficient moved by more than this share
};
struct NormClipping {   // {"method": "NormClipping", "max_norm": 10}
  double max_norm = 0;  // over 0, to 1e30
};
struct NormFiltering {  // {"method": "NormFiltering", "max_norm": 10}
  double max_norm = 0;  // over 0, to 1e30
};
struct FedBuff {                    // {"method": "FedBuff", "buffer_size": 10}
  std::int64_t buffer_size = 1;     // 1 to 1,000,000
  double server_lr = 1;             // over 0, to 1e6
  double staleness_exponent = 0.5;  // 0 to 10: weight (1 + staleness)^-exponent
  std::int64_t max_staleness = 10;  // 0 to 1,000
};
struct JsonMean {};  // {"method": "JsonMean"}, of JSON states and of nothing else

using AggregationSettings =
    std::variant<FedAvg, UniformMean, FedProx, FedNova, QFedAvg, FedAvgM, FedAdaptive, Scaffold,
                 FedDyn, Median, TrimmedMean, Krum, MultiKrum, Bulyan, GeometricMedian,
                 NormClipping, NormFiltering, FedBuff, JsonMean>;

Result<AggregationSettings> aggregation_from_json(const Json& json, const std::string& where);
// With every default; round-trips.
Json to_json(const AggregationSettings& settings);
// "FedAvg", "FedAdam", "q-FedAvg", ...
std::string method_name(const AggregationSettings& settings);
// For tables: "FedAvg", "FedProx(mu=0.01)".
std::string describe(const AggregationSettings& settings);

// The fewest contributors that the rule can work with: 2f + 3 for Krum and so on, 1 where any
// number will do.
std::int64_t fewest_contributors(const AggregationSettings& settings);
// Errors: kFailedPrecondition, reason "insufficient_for_rule", naming n, the parameters and the
// bound; also Multi-Krum with m > n and a trimmed mean with beta of 0.5 or more.
Status check_contributors(const AggregationSettings& settings, std::int64_t n);

}  // namespace muster
