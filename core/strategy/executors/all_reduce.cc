#include <utility>

#include "core/strategy/executors/data_parallel_run.h"

namespace muster {
namespace {

// The sum of all shares' gradients is at every replica. False: a worker was lost, the step is to
// begin anew with those that are left; no weights have moved.
Result<bool> gather_gradient(DataParallelRun& run, std::vector<ShareFigures>& figures) {
  const std::vector<BatchShare> shares = run.shares_of(run.figures().steps());
  figures.assign(shares.size(), {});
  const auto computed =
      run.fan_out().run(run.alive(), [&](std::size_t slot, std::int64_t worker) -> Status {
        MUSTER_TRY(figures[slot], run.context().compute_gradient(worker, shares[slot]));
        return {};
      });
  MUSTER_TRY(const bool lost_in_computing, run.settle(computed));
  if (lost_in_computing) return false;
  const Status reduced = run.context().all_reduce_gradients(run.alive());
  MUSTER_TRY(const bool lost_in_reducing, run.settle(std::span(&reduced, 1)));
  return !lost_in_reducing;
}

// A replica that is lost here has taken its step or not: the others have, all of them.
Status take_step(DataParallelRun& run, std::span<const ShareFigures> figures) {
  const StepNumber at = run.at(run.figures().steps());
  const auto applied = run.fan_out().run(run.alive(), [&](std::size_t, std::int64_t worker) {
    return run.context().apply_gradients(worker, at);
  });
  run.complete_step(figures);
  MUSTER_TRY(const bool lost, run.settle(applied));
  (void)lost;
  return {};
}

}  // namespace

Result<StrategyResult> fit_all_reduce(DataParallelRun& run) {
  MUSTER_TRY_STATUS(run.prepare());
  std::vector<ShareFigures> figures;
  while (!run.figures().done()) {
    const Result<bool> gathered = gather_gradient(run, figures);
    if (!gathered) return run.interrupted(gathered.error());
    if (!*gathered) continue;
    if (Status taken = take_step(run, figures); !taken) return run.interrupted(taken.error());
    run.tell();
    if (!run.figures().epoch_ended() || run.figures().steps() == run.figures().total_steps())
      continue;
    // If it cannot be had, its worker is lost, which the next step sees.
    if (Result<StateDict> state = run.context().read_back_state(run.alive().front())) {
      run.keep(*std::move(state));
    }
  }
  for (;;) {
    Result<StateDict> state = run.context().read_back_state(run.alive().front());
    if (state) return run.finish(*std::move(state), run.report());
    const Status failed = state.error();
    const Result<bool> settled = run.settle(std::span(&failed, 1));
    if (!settled) return run.interrupted(settled.error());
  }
}

}  // namespace muster
