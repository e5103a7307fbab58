#include <fmt/format.h>

#include "core/base/entropy.h"
#include "core/graph/model.h"
#include "core/train/evaluate.h"
#include "server/coordinator.h"

namespace muster {
namespace {

// The mean of each metric over the devices that answered, weighted by their held-out examples, in
// order of their ids.
Json mean_metrics(const std::vector<EvaluationRow>& answers) {
  std::map<std::string, std::pair<double, double>> sums;  // metric: weighted sum, weight
  std::int64_t examples = 0;
  std::int64_t devices = 0;
  for (const EvaluationRow& answer : answers) {
    if (answer.answered_at_ms == 0 || answer.examples == 0) continue;
    examples += answer.examples;
    ++devices;
    for (const auto& [name, value] : answer.metrics.items()) {
      auto& [sum, weight] = sums[name];
      sum += value.get<double>() * static_cast<double>(answer.examples);
      weight += static_cast<double>(answer.examples);
    }
  }
  Json metrics{{"eval_examples", examples}, {"eval_devices", devices}};
  for (const auto& [name, sum] : sums) metrics["eval_" + name] = sum.first / sum.second;
  return metrics;
}

}  // namespace

Status Coordinator::ask_evaluations(JobRun& run, const std::vector<DeviceId>& devices,
                                    Outbox& outbox) {
  std::vector<EvaluationRow> rows;
  std::map<DeviceId, PendingEvaluation> pending;
  for (const DeviceId& device : devices) {
    MUSTER_TRY(const std::string task, random_hex(16));
    EvaluationRow row;
    row.job = run.row.job;
    row.round = run.round.round;
    row.device = device;
    row.task = task;
    row.asked_at_ms = parts_.clock.unix_ms();
    rows.push_back(row);
    pending[device] = {row, run.row.global_state, now() + run.description.round.deadline};
  }
  MUSTER_TRY_STATUS(parts_.store.add_evaluations(rows));
  run.evaluations = std::move(pending);
  run.evaluations_open = true;
  for (const auto& [device, evaluation] : run.evaluations) {
    std::optional<WaitingDevice> waiting = waiting_.leave(device);
    if (!waiting) continue;
    for (auto& [id, other] : runs_) {
      if (other->machine) other->machine->on(DeviceLeft{device}, now());
    }
    outbox.answers.push_back(
        [reply = std::move(waiting->reply),
         task = evaluation_task(run, evaluation, now())]() mutable { reply(std::move(task), {}); });
  }
  return {};
}

protocol::Task Coordinator::evaluation_task(const JobRun& run, const PendingEvaluation& pending,
                                            Time at) const {
  protocol::Task task;
  task.kind = protocol::TaskKind::kEvaluate;
  task.id = pending.row.task;
  task.fit.job = run.row.job;
  task.fit.round = pending.row.round;
  task.fit.model = run.model;
  task.fit.local = run.description.local;
  task.state = pending.state;
  task.state_bytes = static_cast<std::int64_t>(run.state_bytes);
  task.deadline_ms = std::max<std::int64_t>(0, (pending.expires_at - at).count());
  return task;
}

Status Coordinator::take_result(const std::string& device, const std::string& task,
                                const protocol::TaskResult& result) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, run] : runs_) {
    const auto pending = run->evaluations.find(device);
    if (pending == run->evaluations.end() || pending->second.row.task != task) continue;
    EvaluationRow row = pending->second.row;
    row.answered_at_ms = parts_.clock.unix_ms();
    row.examples = result.examples;
    row.metrics = Json(result.metrics);
    MUSTER_TRY_STATUS(parts_.store.answer_evaluation(row));
    run->evaluations.erase(pending);
    return settle_evaluations(*run);
  }
  MUSTER_TRY(const std::optional<EvaluationRow> row, parts_.store.find_evaluation(task));
  if (!row || row->device != device) {
    return Error{ErrorCode::kNotFound, fmt::format("{} was never given a task {}", device, task),
                 "task_unknown"};
  }
  if (row->answered_at_ms != 0) {
    return Error{ErrorCode::kAlreadyExists, fmt::format("task {} has its result already", task),
                 "already_reported"};
  }
  return Error{ErrorCode::kFailedPrecondition, fmt::format("the time for task {} is over", task),
               "round_closed"};
}

Status Coordinator::settle_evaluations(JobRun& run) {
  std::erase_if(run.evaluations,
                [at = now()](const auto& entry) { return entry.second.expires_at <= at; });
  if (run.evaluations_open && run.evaluations.empty()) {
    const std::int64_t round = run.row.rounds_committed;
    MUSTER_TRY(const std::vector<EvaluationRow> answers,
               parts_.store.list_evaluations(run.row.job, round));
    MUSTER_TRY(const std::optional<RoundRow> row, parts_.store.find_round(run.row.job, round));
    if (row) {
      MUSTER_TRY_STATUS(
          parts_.store.add_round_metrics(run.row.job, round, row->attempt, mean_metrics(answers)));
    }
    run.evaluations_open = false;
  }
  return finish_if_done(run);
}

void Coordinator::evaluate_centrally(const JobRun& run) {
  compute_->post([this, job = run.row.job, round = run.row.rounds_committed,
                  attempt = run.round.attempt, state = run.row.global_state, model = run.model,
                  data = run.test_data] {
    Json metrics = Json::object();
    const auto evaluated = [&]() -> Result<EvaluateResult> {
      MUSTER_TRY(const Graph graph, graph_from_model(model));
      MUSTER_TRY(const StateDict global, parts_.states.read(state));
      return evaluate(graph, global, *data);
    }();
    if (evaluated) {
      for (const auto& [name, value] : evaluated->metrics) metrics["test_" + name] = value;
      metrics["test_examples"] = evaluated->examples;
    } else {
      parts_.log->error("job {} round {}: evaluation on the test data: {}", job, round,
                        evaluated.error().message);
      metrics["test_error"] = evaluated.error().message;
    }
    evaluation_done(job, round, attempt, metrics);
  });
}

void Coordinator::evaluation_done(const std::string& job, std::int64_t round, std::int64_t attempt,
                                  const Json& metrics) {
  const std::lock_guard lock(mutex_);
  JobRun* run = find_run(job);
  if (Status stored = parts_.store.add_round_metrics(job, round, attempt, metrics); !stored) {
    parts_.log->error("job {} round {}: {}", job, round, stored.error().message);
  }
  if (run == nullptr || run->row.rounds_committed != round) return;
  run->central_evaluation_pending = false;
  if (Status done = finish_if_done(*run); !done)
    parts_.log->error("job {}: {}", job, done.error().message);
}

Status Coordinator::finish_if_done(JobRun& run) {
  const bool done = run.all_committed() && run.evaluations.empty() && !run.evaluations_open &&
                    !run.central_evaluation_pending && run.row.status == JobStatus::kRunning;
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
