#include <utility>

#include "core/strategy/executors/data_parallel_run.h"

namespace muster {
namespace {

// Who mixes with whom, for the replicas that are left.
struct Mixing {
  Mixing(Topology topology, std::size_t replicas)
      : neighbours(neighbours_of(topology, static_cast<std::int64_t>(replicas))),
        weights(metropolis_weights(neighbours)) {}
  Neighbours neighbours;
  MixingWeights weights;
};

// All states, fetched; lost workers are left out.
Result<std::vector<StateDict>> fetch_states(DataParallelRun& run) {
  for (;;) {
    std::vector<std::optional<StateDict>> found(run.alive().size());
    const auto fetched =
        run.fan_out().run(run.alive(), [&](std::size_t slot, std::int64_t worker) -> Status {
          MUSTER_TRY(found[slot], run.context().read_back_state(worker));
          return {};
        });
    MUSTER_TRY(const bool lost, run.settle(fetched));
    if (lost) continue;
    std::vector<StateDict> states;
    for (auto& state : found) states.push_back(*std::move(state));
    return states;
  }
}

double distance_of(const std::vector<StateDict>& states) {
  std::vector<std::span<const float>> vectors;
  for (const StateDict& state : states) vectors.emplace_back(state.values());
  return consensus_distance(vectors);
}

// In double, in the order of the replicas.
StateDict average_of(const std::vector<StateDict>& states) {
  StateDict average(states.front().layout_ptr());
  for (std::size_t i = 0; i < average.values().size(); ++i) {
    double sum = 0;
    for (const StateDict& state : states) sum += static_cast<double>(state.values()[i]);
    average.values()[i] = static_cast<float>(sum / static_cast<double>(states.size()));
  }
  return average;
}

// As run.interrupted, with the average of those that are left.
Error interrupted(DataParallelRun& run, Error error) {
  std::vector<StateDict> states;
  for (const std::int64_t worker : run.alive()) {
    Result<StateDict> state = run.context().read_back_state(worker);
    if (state) states.push_back(*std::move(state));
  }
  if (states.empty()) return run.interrupted(std::move(error));
  return run.interrupted(std::move(error), average_of(states));
}

// Every replica has the gradient of its share at its own weights, times the number of replicas.
// False: a worker was lost, the step is to begin anew.
Result<bool> compute(DataParallelRun& run, std::vector<ShareFigures>& figures) {
  std::vector<BatchShare> shares = run.shares_of(run.figures().steps());
  figures.assign(shares.size(), {});
  for (BatchShare& share : shares) {
    share.scale = static_cast<double>(shares.size());
    share.untrained_weight = 1;
  }
  const auto computed =
      run.fan_out().run(run.alive(), [&](std::size_t slot, std::int64_t worker) -> Status {
        MUSTER_TRY(figures[slot], run.context().compute_gradient(worker, shares[slot]));
        return {};
      });
  MUSTER_TRY(const bool lost, run.settle(computed));
  return !lost;
}

// One that is lost while states mix may have been mixed with some and not with others: gossip goes
// on from there.
Status mix_and_apply(DataParallelRun& run, const Mixing& mixing,
                     std::span<const ShareFigures> figures) {
  const Status mixed = run.context().mix_states(run.alive(), mixing.neighbours, mixing.weights);
  MUSTER_TRY([[maybe_unused]] const bool lost_in_mixing, run.settle(std::span(&mixed, 1)));
  const StepNumber at = run.at(run.figures().steps());
  const auto applied = run.fan_out().run(run.alive(), [&](std::size_t, std::int64_t worker) {
    return run.context().apply_gradients(worker, at);
  });
  run.complete_step(figures);
  MUSTER_TRY([[maybe_unused]] const bool lost_in_applying, run.settle(applied));
  return {};
}

}  // namespace

Result<StrategyResult> fit_decentralized(DataParallelRun& run, const Decentralized& method) {
  MUSTER_TRY_STATUS(run.prepare());
  Json distances = Json::array();
  std::vector<ShareFigures> figures;
  Mixing mixing(method.topology, run.alive().size());
  while (!run.figures().done()) {
    if (mixing.neighbours.size() != run.alive().size()) {
      mixing = Mixing(method.topology, run.alive().size());
    }
    const Result<bool> computed = compute(run, figures);
    if (!computed) return interrupted(run, computed.error());
    if (!*computed) continue;
    if (Status taken = mix_and_apply(run, mixing, figures); !taken) {
      return interrupted(run, taken.error());
    }
    run.tell();
    if (!run.figures().epoch_ended() || run.figures().steps() == run.figures().total_steps())
      continue;
    const Result<std::vector<StateDict>> states = fetch_states(run);
    if (!states) return interrupted(run, states.error());
    distances.push_back(distance_of(*states));
    run.keep(average_of(*states));
  }
  const Result<std::vector<StateDict>> states = fetch_states(run);
  if (!states) return interrupted(run, states.error());
  distances.push_back(distance_of(*states));
  Json report = run.report();
  report["consensus_distance"] = std::move(distances);  // after each epoch, and at the end
  return run.finish(average_of(*states), std::move(report));
}

}  // namespace muster
