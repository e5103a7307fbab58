#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/entropy.h"
#include "core/graph/model.h"
#include "core/train/evaluate.h"
#include "server/coordinator.h"

namespace muster {
namespace {

// The mean of each metric over the devices that answered, weighted by their held-out examples, in
// order of their ids. A mean that does not fit a double is left out.
Json mean_metrics(std::vector<EvaluationRow> answers) {
  std::ranges::sort(answers, {}, &EvaluationRow::device);
  std::map<std::string, std::pair<double, double>> sums;  // metric: weighted sum, weight
  std::int64_t examples = 0;
  std::int64_t devices = 0;
  for (const EvaluationRow& answer : answers) {
    if (answer.answered_at_ms == 0 || answer.examples == 0) continue;
    examples += answer.examples;
    ++devices;
    for (const auto& [name, value] : answer.metrics.items()) {
      if (!value.is_number()) continue;
      auto& [sum, weight] = sums[name];
      sum += value.get<double>() * static_cast<double>(answer.examples);
      weight += static_cast<double>(answer.examples);
    }
  }
  Json metrics = Json::object();
  for (const auto& [name, sum] : sums) {
    const double mean = sum.first / sum.second;
    if (std::isfinite(mean)) metrics["eval_" + name] = mean;
  }
  metrics["eval_examples"] = examples;  // last: no device names these
  metrics["eval_devices"] = devices;
  return metrics;
}

}  // namespace

Result<std::vector<EvaluationRow>> Coordinator::evaluations_to_ask(
    const JobRun& run, const std::vector<DeviceId>& devices) const {
  std::vector<EvaluationRow> rows;
  if (!run.description.evaluation.federated) return rows;
  for (const DeviceId& device : devices) {
    EvaluationRow row;
    row.job = run.row.job;
    row.round = run.round.round;
    row.device = device;
    MUSTER_TRY(row.task, random_hex(16));
    row.asked_at_ms = parts_.clock.unix_ms();
    rows.push_back(std::move(row));
  }
  return rows;
}

void Coordinator::begin_evaluation(JobRun& run, const std::vector<EvaluationRow>& asked,
                                   Outbox& outbox) {
  RoundEvaluation evaluation;
  evaluation.round = run.round.round;
  evaluation.attempt = run.round.attempt;
  evaluation.state = run.row.global_state;
  evaluation.expires_at = now() + run.description.round.deadline;
  for (const EvaluationRow& row : asked) evaluation.pending[row.device] = {row.task, false};
  evaluation.mean_is_due = !asked.empty();
  evaluation.central_is_due = run.test_data != nullptr;
  run.evaluation = std::move(evaluation);
  if (run.evaluation->central_is_due) evaluate_centrally(run);
  for (auto& [device, pending] : run.evaluation->pending) {
    std::optional<WaitingDevice> waiting = take_out(device);
    if (!waiting) continue;
    pending.handed_out = true;
    give(*std::move(waiting), evaluation_task(run, pending.task, now()), outbox);
  }
}

protocol::Task Coordinator::evaluation_task(const JobRun& run, const std::string& id,
                                            Time at) const {
  const RoundEvaluation& evaluation = *run.evaluation;
  protocol::Task task;
  task.kind = protocol::TaskKind::kEvaluate;
  task.id = id;
  task.fit.job = run.row.job;
  task.fit.round = evaluation.round;
  task.fit.model = run.model;
  task.fit.local = run.description.local;
  task.state = evaluation.state;
  task.state_bytes = static_cast<std::int64_t>(run.state_bytes);
  task.deadline_ms = std::max<std::int64_t>(0, (evaluation.expires_at - at).count());
  return task;
}

Status Coordinator::take_result(const std::string& device, const std::string& task,
                                const protocol::TaskResult& result) {
  const std::lock_guard lock(mutex_);
  if (result.examples > parts_.limits.max_examples) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} examples are over this server's limit of {}", result.examples,
                             parts_.limits.max_examples),
                 "bad_examples"};
  }
  MUSTER_TRY(std::optional<EvaluationRow> row, parts_.store.find_evaluation(task));
  if (!row || row->device != device) {
    return Error{ErrorCode::kNotFound, fmt::format("{} was never given a task {}", device, task),
                 "task_unknown"};
  }
  if (row->answered_at_ms != 0) {
    return Error{ErrorCode::kAlreadyExists, fmt::format("task {} has its result already", task),
                 "already_reported"};
  }
  JobRun* run = find_run(row->job);
  const bool awaited = run != nullptr && run->evaluation && run->evaluation->round == row->round &&
                       run->evaluation->mean_is_due;
  if (!awaited) {
    return Error{ErrorCode::kFailedPrecondition, fmt::format("the time for task {} is over", task),
                 "round_closed"};
  }
  row->answered_at_ms = parts_.clock.unix_ms();
  row->examples = result.examples;
  row->metrics = Json(result.metrics);
  MUSTER_TRY_STATUS(parts_.store.answer_evaluation(*row));
  run->evaluation->pending.erase(device);
  if (Status settled = settle_evaluation(*run); !settled) {
    parts_.log->error("job {}: {}; the timer tries again", run->row.job, settled.error().message);
  }
  return {};
}

Status Coordinator::settle_evaluation(JobRun& run, bool now_or_never) {
  if (run.evaluation) {
    RoundEvaluation& evaluation = *run.evaluation;
    const bool over = now_or_never || evaluation.expires_at <= now();
    if (evaluation.mean_is_due && (over || evaluation.pending.empty())) {
      MUSTER_TRY(std::vector<EvaluationRow> answers,
                 parts_.store.list_evaluations(run.row.job, evaluation.round));
      MUSTER_TRY_STATUS(parts_.store.add_round_metrics(
          run.row.job, evaluation.round, evaluation.attempt, mean_metrics(std::move(answers))));
      evaluation.mean_is_due = false;
      evaluation.pending.clear();
    }
    if (evaluation.central) {
      MUSTER_TRY_STATUS(parts_.store.add_round_metrics(run.row.job, evaluation.round,
                                                       evaluation.attempt, *evaluation.central));
      evaluation.central.reset();
      evaluation.central_is_due = false;
    }
    if (evaluation.settled()) run.evaluation.reset();
  }
  return finish_if_done(run);
}

void Coordinator::evaluate_centrally(const JobRun& run) {
  compute_->post([this, job = run.row.job, round = run.evaluation->round,
                  state = run.evaluation->state, model = run.model,
                  data = run.test_data](Workers&, std::stop_token stop) {
    const auto evaluated = [&]() -> Result<EvaluateResult> {
      MUSTER_TRY(const Graph graph, graph_from_model(model));
      MUSTER_TRY(const StateDict global, parts_.states.read(state));
      return evaluate(graph, global, *data, stop);
    }();
    if (stop.stop_requested()) return;  // a restarted server evaluates again
    Json metrics = Json::object();
    if (evaluated) {
      for (const auto& [name, value] : evaluated->metrics) metrics["test_" + name] = value;
      metrics["test_examples"] = evaluated->examples;
    } else {
      parts_.log->error("job {} round {}: evaluation on the test data: {}", job, round,
                        evaluated.error().message);
      metrics["test_error"] = evaluated.error().message;
    }
    central_evaluation_done(job, round, metrics);
  });
}

void Coordinator::central_evaluation_done(const std::string& job, std::int64_t round,
                                          const Json& metrics) {
  const std::lock_guard lock(mutex_);
  JobRun* run = find_run(job);
  if (run == nullptr) return;
  if (!run->evaluation || run->evaluation->round != round) {
    // The next round was quicker; this one's figures are still worth keeping.
    const auto row = parts_.store.find_round(job, round);
    if (row && *row) {
      if (Status stored = parts_.store.add_round_metrics(job, round, (*row)->attempt, metrics);
          !stored) {
        parts_.log->error("job {} round {}: {}", job, round, stored.error().message);
      }
    }
    return;
  }
  run->evaluation->central = metrics;
  if (Status settled = settle_evaluation(*run); !settled) {
    parts_.log->error("job {}: {}; the timer tries again", job, settled.error().message);
  }
}

Status Coordinator::finish_if_done(JobRun& run) {
  const bool done = run.all_committed() && !run.evaluation && run.row.status == JobStatus::kRunning;
  if (!done) return {};
  const std::string reason = fmt::format("all {} rounds are committed", run.row.rounds_committed);
  MUSTER_TRY_STATUS(parts_.store.set_job_status(run.row.job, JobStatus::kFinished, reason,
                                                event("job_finished", &run)));
  run.row.status = JobStatus::kFinished;
  run.row.status_reason = reason;
  parts_.log->info("job {}: finished, {}", run.row.job, reason);
  return {};
}

}  // namespace muster
