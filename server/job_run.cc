#include "server/job_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/graph/model.h"
#include "core/tensor/safetensors.h"
#include "core/train/batch.h"
#include "core/train/data/data_spec.h"

namespace muster {

Result<StateDict> initial_state(const JobDescription& description) {
  MUSTER_TRY(const Json model, resolve_model(description.model));
  return initial_state_of(model, description.seed);
}

namespace {

Result<Dataset> load_test_data(const std::string& text) {
  MUSTER_TRY(DataSpec spec, parse_data_spec(text));
  spec.holdout = 0;  // all of it is for testing
  MUSTER_TRY(LocalData data, load_data(spec));
  return std::move(data.train);
}

}  // namespace

Result<std::unique_ptr<JobRun>> make_job_run(JobRow row, std::uint64_t max_state_bytes) {
  auto run = std::make_unique<JobRun>();
  MUSTER_TRY(run->description, job_from_json(row.description));
  MUSTER_TRY(run->model, resolve_model(run->description.model));
  MUSTER_TRY(run->layout, layout_of_model(run->model));
  run->state_bytes = safetensors_bytes(*run->layout);
  run->aggregation = aggregation_of(run->description);
  if (run->state_bytes > max_state_bytes) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("model: a state of {} bytes is over this server's max_state_bytes of {}",
                    run->state_bytes, max_state_bytes),
        "bad_job"};
  }
  if (const std::string& spec = run->description.evaluation.test_data; !spec.empty()) {
    Result<Dataset> data = load_test_data(spec);
    if (!data) {
      Error error = with_context(std::move(data).error(), "evaluation.test_data");
      error.code = ErrorCode::kInvalidArgument;
      error.reason = "bad_test_data";
      return error;
    }
    MUSTER_TRY(const Graph graph, graph_from_model(run->model));
    if (Status fits = check_data_fits(graph, *data); !fits) {
      Error error = with_context(std::move(fits).error(), "evaluation.test_data");
      error.reason = "bad_test_data";
      return error;
    }
    run->test_data = std::make_shared<const Dataset>(*std::move(data));
  }
  run->row = std::move(row);
  return run;
}

Result<std::uint64_t> most_update_bytes(const JobRow& row) {
  MUSTER_TRY(const JobDescription job, job_from_json(row.description));
  MUSTER_TRY(const Json model, resolve_model(job.model));
  MUSTER_TRY(const LayoutPtr layout, layout_of_model(model));
  return most_body_bytes(job.encoding, *layout);
}

Result<std::map<DeviceId, OpenTask>> tasks_of(const Store& store, const RoundRow& round,
                                              const std::vector<ParticipantRow>& participants) {
  std::map<DeviceId, OpenTask> tasks;
  std::map<std::int64_t, Digest> bases = {{round.round, round.base}};  // attempts share theirs
  for (const ParticipantRow& participant : participants) {
    const bool carried = participant.began_round != 0;
    OpenTask task{participant.task,
                  carried ? participant.began_round : round.round,
                  carried ? participant.began_attempt : round.attempt,
                  {}};
    if (!bases.contains(task.round)) {
      MUSTER_TRY(const std::optional<RoundRow> began, store.find_round(round.job, task.round));
      if (!began) {
        return Error{ErrorCode::kDataLoss,
                     fmt::format("task {} was given in round {} of {}, which is not in the store",
                                 task.id, task.round, round.job),
                     "store_damaged"};
      }
      bases[task.round] = began->base;
    }
    task.base = bases[task.round];
    tasks[participant.device] = std::move(task);
  }
  return tasks;
}

Result<std::vector<ParticipantRow>> carried_over(const Store& store, const JobDescription& job,
                                                 const RoundRow& next) {
  std::vector<ParticipantRow> carried;
  const auto* buffer = std::get_if<FedBuff>(&std::get<Federated>(job.strategy).aggregation);
  if (buffer == nullptr || next.round == 1 || next.attempt > 1) return carried;
  MUSTER_TRY(const std::optional<RoundRow> before, store.find_round(next.job, next.round - 1));
  if (!before) return carried;
  MUSTER_TRY(std::vector<ParticipantRow> participants,
             store.list_participants(next.job, before->round, before->attempt));
  MUSTER_TRY(const std::vector<UpdateRow> counted,
             store.list_accepted_updates(next.job, before->round, before->attempt));
  for (ParticipantRow& participant : participants) {
    if (std::ranges::binary_search(counted, participant.device, {}, &UpdateRow::device)) continue;
    if (participant.began_round == 0) {
      participant.began_round = before->round;
      participant.began_attempt = before->attempt;
    }
    if (next.round - participant.began_round > buffer->max_staleness) continue;
    participant.round = next.round;
    participant.attempt = next.attempt;
    carried.push_back(std::move(participant));
  }
  return carried;
}

Result<std::unique_ptr<JobRun>> resume_job_run(const Store& store, JobRow row,
                                               std::uint64_t max_state_bytes,
                                               std::chrono::milliseconds now) {
  MUSTER_TRY(std::unique_ptr<JobRun> run, make_job_run(std::move(row), max_state_bytes));
  const std::string& job = run->row.job;
  const std::int64_t committed = run->row.rounds_committed;

  MUSTER_TRY(std::optional<RoundRow> open, store.find_round(job, committed + 1));
  if (open) {
    run->round = *std::move(open);
    run->bytes_down = run->round.bytes_down;
    run->bytes_up = run->round.bytes_up;
    if (run->round.phase != to_string(RoundPhase::kAbandoned)) {
      MUSTER_TRY(run->machine,
                 RoundMachine::restore(run->description.round, run->round.machine, now));
      MUSTER_TRY(const auto participants,
                 store.list_participants(job, run->round.round, run->round.attempt));
      MUSTER_TRY(run->tasks, tasks_of(store, run->round, participants));
    }
  }
  if (committed == 0) return run;

  MUSTER_TRY(const std::optional<RoundRow> last, store.find_round(job, committed));
  if (!last || !last->state) return run;
  if (!open) run->round = *last;
  MUSTER_TRY(const auto asked, store.list_evaluations(job, committed));
  RoundEvaluation evaluation{
      committed, last->attempt, *last->state, now + run->description.round.deadline,
      {},        false,         false,        {}};
  for (const EvaluationRow& one : asked) {
    if (one.answered_at_ms == 0) evaluation.pending[one.device] = {one.task, false};
  }
  evaluation.mean_is_due = !asked.empty() && !last->metrics.contains("eval_examples");
  evaluation.central_is_due = run->test_data != nullptr &&
                              !last->metrics.contains("test_examples") &&
                              !last->metrics.contains("test_error");
  if (!evaluation.settled()) run->evaluation = std::move(evaluation);
  return run;
}

}  // namespace muster
