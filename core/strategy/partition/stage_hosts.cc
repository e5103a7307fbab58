#include "core/strategy/partition/stage_hosts.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/strategy/context/strategy_worker.h"
#include "core/train/clip.h"

namespace muster {
namespace {

constexpr const char* kHere = "coordinator";

void copy_into(const StateDict& part, StateDict& whole) {
  for (const TensorSpec& spec : part.layout().tensors()) {
    std::ranges::copy(part.tensor(spec), whole.tensor(spec.name).begin());
  }
}

}  // namespace

StageHosts::StageHosts(StrategyContext& context, const StrategyTask& task,
                       std::span<const Stage> stages, std::vector<std::int64_t> workers,
                       FanOut fan_out)
    : context_(&context),
      task_(&task),
      stages_(stages),
      workers_(std::move(workers)),
      fan_out_(std::move(fan_out)) {}

Result<StageHosts> StageHosts::create(StrategyContext& context, const Graph& graph,
                                      const StrategyTask& task, std::span<const Stage> stages,
                                      std::int64_t max_micro_batch,
                                      std::span<const std::int64_t> max_in_flight) {
  std::set<std::int64_t> places;
  for (const Stage& stage : stages) places.insert(stage.place);
  places.erase(kCoordinator);
  MUSTER_TRY(FanOut fan_out, FanOut::create(places.size()));
  StageHosts hosts(context, task, stages, {places.begin(), places.end()}, std::move(fan_out));
  MUSTER_TRY_STATUS(hosts.prepare(graph, max_micro_batch, max_in_flight));
  return hosts;
}

Status StageHosts::prepare(const Graph& graph, std::int64_t max_micro_batch,
                           std::span<const std::int64_t> max_in_flight) {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    if (stage.place == kCoordinator) {
      MUSTER_TRY_IN(kHere, PartitionEnds ends,
                    prepare_here(graph, i,
                                 {.nodes = stage.nodes,
                                  .max_micro_batch = max_micro_batch,
                                  .max_in_flight = max_in_flight[i]}));
      ends_.push_back(std::move(ends));
      continue;
    }
    // Only what the stage needs goes to its worker.
    MUSTER_TRY(const StateDict start, state_of_nodes(graph, *task_->start, stage.nodes));
    MUSTER_TRY(PartitionEnds ends, context_->prepare_partition(stage.place,
                                                               {.model = task_->model,
                                                                .settings = task_->settings,
                                                                .nodes = stage.nodes,
                                                                .max_micro_batch = max_micro_batch,
                                                                .max_in_flight = max_in_flight[i],
                                                                .stage = stage.index},
                                                               start));
    ends_.push_back(std::move(ends));
  }
  return {};
}

Result<PartitionEnds> StageHosts::prepare_here(const Graph& graph, std::size_t stage,
                                               PartitionOptions options) {
  MUSTER_TRY(PartitionReplica replica,
             PartitionReplica::create(graph, *task_->start, task_->settings, std::move(options)));
  PartitionEnds ends{.inputs = replica.inputs(), .outputs = replica.outputs()};
  here_.emplace(stage, std::move(replica));
  return ends;
}

Result<Tensors> StageHosts::forward(std::size_t stage, std::int64_t micro_batch, std::int64_t batch,
                                    Tensors inputs, std::uint64_t seed) {
  const Stage& where = stages_[stage];
  if (where.place != kCoordinator) {
    return context_->execute_partition(where.place, micro_batch, batch, std::move(inputs), seed,
                                       where.index);
  }
  MUSTER_TRY_IN(kHere, Tensors outputs,
                here_.at(stage).forward(micro_batch, batch, std::move(inputs), seed));
  return outputs;
}

Result<Tensors> StageHosts::backward(std::size_t stage, std::int64_t micro_batch,
                                     Tensors doutputs) {
  const Stage& where = stages_[stage];
  if (where.place != kCoordinator) {
    return context_->backward_partition(where.place, micro_batch, std::move(doutputs), where.index);
  }
  MUSTER_TRY_IN(kHere, Tensors dinputs, here_.at(stage).backward(micro_batch, std::move(doutputs)));
  return dinputs;
}

Result<std::optional<double>> StageHosts::clip() {
  const double max_norm = task_->settings.clip_norm;
  if (max_norm == 0) return std::optional<double>();
  std::vector<double> norms(workers_.size());
  const auto asked = fan_out_.run(workers_, [&](std::size_t slot, std::int64_t worker) -> Status {
    MUSTER_TRY(norms[slot], context_->partition_gradient_norm(worker));
    return {};
  });
  MUSTER_TRY_STATUS(first_error(asked));
  for (const auto& [stage, replica] : here_) norms.push_back(replica.gradient_norm());
  double squares = 0;
  for (const double norm : norms) squares += norm * norm;
  return std::optional(clip_scale(std::sqrt(squares), max_norm));
}

Status StageHosts::apply(StepNumber at) {
  MUSTER_TRY(const std::optional<double> scale, clip());
  const auto applied = fan_out_.run(workers_, [&](std::size_t /*slot*/, std::int64_t worker) {
    return context_->apply_partition(worker, at, scale);
  });
  MUSTER_TRY_STATUS(first_error(applied));
  for (auto& [stage, replica] : here_) {
    if (Status stepped = replica.apply(at, scale); !stepped) {
      return with_context(std::move(stepped).error(), kHere);
    }
  }
  return {};
}

Result<StateDict> StageHosts::state() {
  StateDict whole(task_->start->layout_ptr());
  for (const std::int64_t worker : workers_) {
    MUSTER_TRY(const StateDict part, context_->read_back_state(worker));
    copy_into(part, whole);
  }
  for (const auto& [stage, replica] : here_) copy_into(replica.state(), whole);
  return whole;
}

}  // namespace muster
