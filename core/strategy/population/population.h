#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/random.h"
#include "core/strategy/population/search_space.h"

namespace muster {

// Population based training (Jaderberg et al. 2017, Algorithm 1) without the training: who copies
// whom, and with what hyperparameters. Pure: scores in, decisions out, a seed fixes them.
struct ExploitSettings {
  enum class Method { kTruncation, kBinary };
  Method method = Method::kTruncation;
  double fraction = 0.2;  // kTruncation, over 0 to 0.5: the worst share copies from the best share
  double threshold = 0;   // kBinary, 0 or more: the margin by which another must be better
  bool copy_hyperparameters = true;
};
struct ExploreSettings {
  enum class Method { kPerturbation, kResample };
  Method method = Method::kPerturbation;
  double factor = 1.2;  // kPerturbation, over 1, to 100
};
// {"method": "Truncation", "fraction": 0.2} | {"method": "Binary", "threshold": 0.01}, both with
// "copy_hyperparameters" (true when missing)
Result<ExploitSettings> exploit_from_json(const Json& json, const std::string& where);
Json to_json(const ExploitSettings& settings);
// {"method": "Perturbation", "factor": 1.2} | {"method": "Resample"}
Result<ExploreSettings> explore_from_json(const Json& json, const std::string& where);
Json to_json(const ExploreSettings& settings);

struct Member {
  std::int64_t id = 0;  // its place in the population
  double score = 0;     // higher is better; minus infinity: it failed or turned NaN
  Hyperparameters hyperparameters;
  std::string failure = {};  // why it failed; empty when it did not
};

// What becomes of a member after a generation.
struct Succession {
  std::int64_t member = 0;
  std::int64_t parent = 0;  // whose state it goes on with; itself when it keeps its own
  Hyperparameters hyperparameters;
  bool operator==(const Succession&) const = default;
};

// Exploit, then explore for those that copied, all seen before anyone changed. A member that failed
// copies in any case. Ties go to the lower id; Binary compares with one other member drawn from the
// seed (with two members: the other one). The worst share is fraction * members rounded down, and
// at least one of two or more.
// Errors: kFailedPrecondition, reason "all_failed", with the first failure's text: nobody is left.
Result<std::vector<Succession>> next_generation(const std::vector<Member>& members,
                                                const SearchSpace& space,
                                                const ExploitSettings& exploit,
                                                const ExploreSettings& explore, std::uint64_t seed);

// The same with exploring of one's own: values in, values out, asked in order of the members.
using Explore = std::function<Hyperparameters(const Hyperparameters&, Random&)>;
enum class Explorers { kThoseThatCopied, kAll };
Result<std::vector<Succession>> next_generation(const std::vector<Member>& members,
                                                const ExploitSettings& exploit,
                                                const Explore& explore, Explorers explorers,
                                                std::uint64_t seed);

// One member at one generation, for the store and for showing.
struct LineageEntry {
  std::int64_t generation = 0;  // from 1
  std::int64_t member = 0;
  std::int64_t parent = 0;  // in the generation before
  double score = 0;
  Hyperparameters hyperparameters;
};
// The ancestry of a member, oldest first: one entry a generation, whose hyperparameters are the
// schedule that led to it.
std::vector<LineageEntry> ancestry(const std::vector<LineageEntry>& all, std::int64_t generation,
                                   std::int64_t member);

}  // namespace muster
