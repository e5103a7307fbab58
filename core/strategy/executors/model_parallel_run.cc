#include "core/strategy/executors/model_parallel_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/graph/model.h"
#include "core/strategy/pipeline/schedule.h"

namespace muster {
namespace {

// The sizes of a batch's micro-batches. One that is smaller than a micro-batch, as the last of an
// epoch may be, is one.
std::vector<std::int64_t> sizes_of(std::int64_t batch, std::int64_t micro_batch) {
  return *micro_batches(batch, std::min(batch, micro_batch));
}

const char* method_of(const ModelParallel& strategy) {
  if (std::holds_alternative<PipelineExchange>(strategy.communication)) return "Pipeline";
  return std::holds_alternative<DirectExchange>(strategy.communication) ? "Direct" : "DataStore";
}

}  // namespace

ModelParallelRun::ModelParallelRun(StrategyContext& context, const ModelParallel& strategy,
                                   const StrategyTask& task, const StrategyObserver& observer,
                                   Graph graph)
    : context_(&context),
      strategy_(&strategy),
      task_(&task),
      observer_(&observer),
      graph_(std::move(graph)),
      seeds_(task.seed),
      order_(task.data.train.size(), task.settings, seeds_.order),
      figures_(task, graph_.loss(), order_),
      bytes_before_(context.bytes_moved()) {}

Result<std::unique_ptr<ModelParallelRun>> ModelParallelRun::create(StrategyContext& context,
                                                                   const ModelParallel& strategy,
                                                                   const StrategyTask& task,
                                                                   const StrategyObserver& observer,
                                                                   ObjectStore& store) {
  if (task.data.train.size() == 0) {
    return Error{ErrorCode::kFailedPrecondition, "ModelParallel: there are no training rows",
                 "no_data"};
  }
  MUSTER_TRY(Graph graph, graph_from_model(task.model));
  MUSTER_TRY_STATUS(check_same_layout(*graph.layout(), task.start->layout()));
  MUSTER_TRY_STATUS(check_finite(task.start->layout(), task.start->values()));
  MUSTER_TRY_STATUS(check_data_fits(graph, task.data.train));
  std::unique_ptr<ModelParallelRun> run(
      new ModelParallelRun(context, strategy, task, observer, std::move(graph)));
  MUSTER_TRY_STATUS(run->choose_micro_batch());
  MUSTER_TRY_STATUS(run->place_stages(store));
  run->kept_ = task.start->clone();
  run->kept_steps_ = run->figures_.steps();
  return run;
}

Status ModelParallelRun::choose_micro_batch() {
  micro_batch_ = std::min(task_->settings.micro_batch(), order_.batch_size());
  if (const PipelineExchange* const method = pipeline()) {
    if (task_->settings.accumulate > 1) {
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("ModelParallel: local.accumulate is {}, but Pipeline cuts batches by "
                      "its own micro_batch_size: leave it at 1",
                      task_->settings.accumulate),
          "bad_strategy"};
    }
    MUSTER_TRY_IN("ModelParallel: Pipeline", [[maybe_unused]] const auto sizes,
                  micro_batches(order_.batch_size(), method->micro_batch_size));
    micro_batch_ = method->micro_batch_size;
  }
  batch_.emplace(graph_, order_.batch_size(), micro_batch_);
  return {};
}

Status ModelParallelRun::place_stages(ObjectStore& store) {
  MUSTER_TRY(const std::vector<std::int64_t> places,
             places_of_nodes(graph_, *strategy_, *context_));
  stages_ = stages_of(graph_, places);
  std::map<std::int64_t, std::size_t> place_numbers;
  for (const Stage& stage : stages_) {
    places_.push_back(place_numbers.emplace(stage.place, place_numbers.size()).first->second);
    drivers_.push_back(static_cast<std::int64_t>(drivers_.size()));
  }
  busy_.emplace(place_numbers.size());
  if (pipeline() != nullptr) {
    MUSTER_TRY(fan_out_, FanOut::create(stages_.size()));
  }
  MUSTER_TRY(hosts_,
             StageHosts::create(*context_, graph_, *task_, stages_, micro_batch_, in_flight()));
  MUSTER_TRY(wiring_, wire(graph_, hosts_->ends()));
  const bool stored = std::holds_alternative<DataStoreExchange>(strategy_->communication);
  exchange_.emplace(wiring_, stages_, stored ? &store : nullptr);
  return {};
}

std::vector<std::int64_t> ModelParallelRun::in_flight() const {
  std::vector<std::int64_t> most(stages_.size(), 1);
  const PipelineExchange* const method = pipeline();
  if (method == nullptr) return most;
  const auto stages = static_cast<std::int64_t>(stages_.size());
  const auto count = static_cast<std::int64_t>(sizes_of(order_.batch_size(), micro_batch_).size());
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    most[static_cast<std::size_t>(stage)] =
        activations_held(method->schedule, stages, count, stage);
  }
  return most;
}

Result<StrategyResult> ModelParallelRun::run() {
  while (!figures_.done()) {
    if (Status stepped = step(); !stepped) return interrupted(std::move(stepped).error());
    figures_.tell(*observer_);
    if (!figures_.epoch_ended() || figures_.done()) continue;
    if (Status kept = keep(); !kept) return interrupted(std::move(kept).error());
  }
  Result<StateDict> state = hosts_->state();
  if (!state) return interrupted(std::move(state).error());
  MUSTER_TRY(StrategyResult result, figures_.finish(*std::move(state)));
  result.bytes_moved = context_->bytes_moved() - bytes_before_;
  result.report = report();
  return result;
}

Status ModelParallelRun::step() {
  load(order_.batch(figures_.steps()));
  Status computed = fan_out_ ? compute_overlapped() : compute_in_turn();
  if (!computed) {
    const StepNumber at = figures_.at();
    return with_context(std::move(computed).error(),
                        fmt::format("ModelParallel: step {} of {}", at.step + 1, at.total));
  }
  MUSTER_TRY_STATUS(hosts_->apply(figures_.at()));
  figures_.complete_step(batch_figures_);
  return {};
}

void ModelParallelRun::load(std::span<const std::int64_t> positions) {
  positions_ = positions;
  batch_->load_targets(task_->data.train, positions);
  sizes_ = sizes_of(static_cast<std::int64_t>(positions.size()), micro_batch_);
  begins_.clear();
  std::size_t begin = 0;
  for (const std::int64_t size : sizes_) {
    begins_.push_back(begin);
    begin += static_cast<std::size_t>(size);
  }
  batch_figures_ = {.normaliser = graph_.loss().normaliser(batch_->target()),
                    .examples = static_cast<std::int64_t>(positions.size())};
  exchange_->begin(static_cast<std::int64_t>(sizes_.size()));
}

Status ModelParallelRun::put_features(std::int64_t micro_batch) {
  const auto i = static_cast<std::size_t>(micro_batch);
  batch_->load_features(task_->data.train, positions_, begins_[i],
                        static_cast<std::size_t>(sizes_[i]));
  const std::span<const float> features = batch_->features();
  return exchange_->put_activation(0, micro_batch, {features.begin(), features.end()});
}

Status ModelParallelRun::compute_in_turn() {
  for (std::int64_t m = 0; m < static_cast<std::int64_t>(sizes_.size()); ++m) {
    MUSTER_TRY_STATUS(put_features(m));
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      MUSTER_TRY_STATUS(forward(stage, m));
    }
    for (std::size_t stage = stages_.size(); stage-- > 0;) {
      MUSTER_TRY_STATUS(backward(stage, m));
    }
  }
  return {};
}

Status ModelParallelRun::compute_overlapped() {
  const auto began = BusyTime::Clock::now();
  fan_out_->run(drivers_, [this](std::size_t /*slot*/, std::int64_t stage) {
    Status driven = drive(static_cast<std::size_t>(stage));
    if (!driven) exchange_->fail(driven.error());
    return driven;
  });
  if (auto failure = exchange_->failure()) return *std::move(failure);
  overlapped_ += BusyTime::Clock::now() - began;
  return {};
}

Status ModelParallelRun::drive(std::size_t stage) {
  const auto steps =
      pipeline_steps(pipeline()->schedule, static_cast<std::int64_t>(stages_.size()),
                     static_cast<std::int64_t>(sizes_.size()), static_cast<std::int64_t>(stage));
  for (const PipelineStep& step : steps) {
    if (step.kind == PipelineStep::Kind::kBackward) {
      MUSTER_TRY_STATUS(backward(stage, step.micro_batch));
      continue;
    }
    // Whoever else takes the features comes later in the schedule.
    if (stage == 0) MUSTER_TRY_STATUS(put_features(step.micro_batch));
    MUSTER_TRY_STATUS(forward(stage, step.micro_batch));
  }
  return {};
}

Status ModelParallelRun::forward(std::size_t stage, std::int64_t micro_batch) {
  const auto i = static_cast<std::size_t>(micro_batch);
  Tensors inputs;
  for (const std::size_t tensor : wiring_.inputs[stage]) {
    MUSTER_TRY(std::vector<float> values, exchange_->take_activation(tensor, micro_batch));
    inputs.push_back(std::move(values));
  }
  busy_->begin(places_[stage]);
  Result<Tensors> outputs = hosts_->forward(stage, micro_batch, sizes_[i], std::move(inputs),
                                            seed_of_part(seeds_.of_step(figures_.steps()), i));
  busy_->end(places_[stage]);
  if (!outputs) return std::move(outputs).error();
  for (std::size_t k = 0; k < outputs->size(); ++k) {
    MUSTER_TRY_STATUS(exchange_->put_activation(wiring_.outputs[stage][k], micro_batch,
                                                std::move((*outputs)[k])));
  }
  return stage + 1 == stages_.size() ? take_loss(micro_batch) : Status();
}

Status ModelParallelRun::take_loss(std::int64_t micro_batch) {
  const auto i = static_cast<std::size_t>(micro_batch);
  MUSTER_TRY(const std::vector<float> output,
             exchange_->take_activation(wiring_.output, micro_batch));
  const TargetView target = batch_->target(begins_[i], static_cast<std::size_t>(sizes_[i]));
  std::vector<float> doutput(output.size());
  batch_figures_.loss +=
      graph_.loss().compute_part(output, target, batch_figures_.normaliser, doutput);
  if (!std::isfinite(batch_figures_.loss)) {
    return Error{ErrorCode::kFailedPrecondition, fmt::format("the loss is {}", batch_figures_.loss),
                 "non_finite"};
  }
  if (const auto correct = graph_.loss().count_correct(output, target)) {
    batch_figures_.correct = batch_figures_.correct.value_or(0) + *correct;
  }
  return exchange_->put_gradient(wiring_.output, micro_batch, wiring_.loss(), std::move(doutput));
}

Status ModelParallelRun::backward(std::size_t stage, std::int64_t micro_batch) {
  Tensors doutputs;
  for (const std::size_t tensor : wiring_.outputs[stage]) {
    MUSTER_TRY(std::vector<float> values, exchange_->take_gradient(tensor, micro_batch));
    doutputs.push_back(std::move(values));
  }
  busy_->begin(places_[stage]);
  Result<Tensors> dinputs = hosts_->backward(stage, micro_batch, std::move(doutputs));
  busy_->end(places_[stage]);
  if (!dinputs) return std::move(dinputs).error();
  for (std::size_t k = 0; k < dinputs->size(); ++k) {
    const std::size_t tensor = wiring_.inputs[stage][k];
    if (wiring_.tensors[tensor].producer < 0) continue;
    MUSTER_TRY_STATUS(exchange_->put_gradient(tensor, micro_batch, static_cast<std::int64_t>(stage),
                                              std::move((*dinputs)[k])));
  }
  return {};
}

Status ModelParallelRun::keep() {
  MUSTER_TRY(StateDict state, hosts_->state());
  kept_ = std::move(state);
  kept_steps_ = figures_.steps();
  return {};
}

Error ModelParallelRun::interrupted(Error error) const {
  if (!is_worker_lost(error) || !observer_->interrupted) return error;
  StrategyResult last = figures_.result_with(kept_->clone());
  last.steps = kept_steps_;
  last.complete = false;
  last.bytes_moved = context_->bytes_moved() - bytes_before_;
  last.report = report();
  observer_->interrupted(last);
  return error;
}

Json ModelParallelRun::report() const {
  Json stages = Json::array();
  for (const Stage& stage : stages_) {
    stages.push_back({{"place", stage.place == kCoordinator ? std::string("coordinator")
                                                            : context_->worker(stage.place).id},
                      {"nodes", stage.nodes}});
  }
  const auto micro_batch_count =
      static_cast<std::int64_t>(sizes_of(order_.batch_size(), micro_batch_).size());
  const ExchangedBytes bytes = exchange_->bytes();
  Json report{{"stages", std::move(stages)},
              {"method", method_of(*strategy_)},
              {"activation_bytes", bytes.activations},
              {"gradient_bytes", bytes.gradients},
              {"micro_batches", micro_batch_count}};
  if (!fan_out_) return report;
  report["bubble_fraction"] =
      bubble_fraction(static_cast<std::int64_t>(stages_.size()), micro_batch_count);
  const auto places = static_cast<double>(std::ranges::max(places_) + 1);
  const double there = places * std::chrono::duration<double>(overlapped_).count();
  const double busy = std::chrono::duration<double>(busy_->total()).count();
  report["measured_bubble"] = there > 0 ? std::clamp(1 - busy / there, 0.0, 1.0) : 0.0;
  return report;
}

}  // namespace muster
