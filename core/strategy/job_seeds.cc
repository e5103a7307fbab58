#include "core/strategy/job_seeds.h"

#include <string>

#include "core/base/random.h"

namespace muster {

std::uint64_t selection_seed(std::uint64_t job_seed, std::int64_t round, std::int64_t attempt) {
  return derive_seed(job_seed, {"selection", std::to_string(round), std::to_string(attempt)});
}

std::uint64_t training_seed(std::uint64_t job_seed, std::int64_t round, const DeviceId& device) {
  return derive_seed(job_seed, {"training", std::to_string(round), device});
}

}  // namespace muster
