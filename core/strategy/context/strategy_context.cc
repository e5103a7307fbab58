#include "core/strategy/context/strategy_context.h"

#include <fmt/format.h>

#include <set>
#include <utility>

namespace muster {

Result<std::int64_t> StrategyContext::worker_for(std::string_view target) const {
  std::set<std::string> names;
  std::int64_t tagged = -1;
  for (std::int64_t i = 0; i < num_workers(); ++i) {
    const WorkerInfo& info = worker(i);
    if (info.id == target) return i;
    names.insert(info.id);
    for (const std::string& tag : info.tags) {
      if (tag == target && tagged < 0) tagged = i;
      names.insert(tag);
    }
  }
  if (tagged >= 0) return tagged;
  return Error{ErrorCode::kNotFound,
               fmt::format("no worker has the id or tag {}; registered are {}",
                           describe(Json(std::string(target))), fmt::join(names, ", ")),
               "no_worker"};
}

Status StrategyContext::mix_states(std::span<const std::int64_t> workers,
                                   const Neighbours& neighbours, const MixingWeights& weights) {
  std::vector<StateDict> before;
  std::vector<StateDict> after;
  std::vector<std::span<const float>> from;
  std::vector<std::span<float>> to;
  for (const std::int64_t worker : workers) {
    MUSTER_TRY(StateDict state, read_back_state(worker));
    after.emplace_back(state.layout_ptr());
    before.push_back(std::move(state));
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    from.emplace_back(std::as_const(before[i]).values());
    to.emplace_back(after[i].values());
  }
  gossip_step(neighbours, weights, from, to);
  for (std::size_t i = 0; i < workers.size(); ++i) {
    MUSTER_TRY_STATUS(set_state(workers[i], after[i]));
  }
  return {};
}

bool is_worker_lost(const Error& error) {
  return error.reason == kWorkerLost;
}

std::string worker_name(const WorkerInfo& worker) {
  return "worker " + worker.id;
}

}  // namespace muster
