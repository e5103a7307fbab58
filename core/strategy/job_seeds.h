#pragma once

#include <cstdint>

#include "core/round/selection.h"

// Seeds of a federated job's steps. They depend on the job's seed and the names of things, never on
// ids or times of one run, so the same job gives the same states again, wherever it runs.
namespace muster {

std::uint64_t selection_seed(std::uint64_t job_seed, std::int64_t round, std::int64_t attempt);
std::uint64_t training_seed(std::uint64_t job_seed, std::int64_t round, const DeviceId& device);

}  // namespace muster
