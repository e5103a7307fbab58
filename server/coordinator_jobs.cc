#include <fmt/format.h>

#include <algorithm>

#include "server/coordinator.h"

namespace muster {

Result<std::string> Coordinator::submit(const JobDescription& description,
                                        const std::string& actor) {
  JobRow row;
  row.description = to_json(description);
  row.created_by = actor;
  row.created_at_ms = parts_.clock.unix_ms();
  // Everything that can be wrong with a job shows before anything of it is stored.
  Result<std::unique_ptr<JobRun>> made = make_job_run(row, parts_.max_state_bytes);
  if (!made && made.error().reason == "bad_test_data") {
    // The message may quote what is in a file of this machine: that is for its own log.
    parts_.log->warn("job of {} refused: {}", actor, made.error().message);
    return Error{ErrorCode::kInvalidArgument,
                 "job.evaluation.test_data: the server cannot use this data (missing, malformed, "
                 "or not of the model's shape); its log says why",
                 "bad_job"};
  }
  if (!made) return made.error();
  std::unique_ptr<JobRun> run = *std::move(made);
  MUSTER_TRY(const StateDict initial, initial_state(description));
  MUSTER_TRY(row.initial_state, parts_.states.write(initial));
  row.global_state = row.initial_state;

  Outbox outbox;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_)
      return Error{ErrorCode::kUnavailable, "the server is stopping; submit again in a moment",
                   "stopping"};
    MUSTER_TRY(row.job,
               parts_.store.add_job(row, event("job_submitted", nullptr, actor, row.description)));
    run->row = row;
    remember_update_bytes(row.job, most_body_bytes(description.encoding, *run->layout));
    JobRun& running = *runs_.emplace(row.job, std::move(run)).first->second;
    parts_.log->info("job {}: submitted by {}, {} rounds of {}", row.job, actor,
                     running.strategy().rounds, describe(running.strategy().aggregation));
    if (Status begun = begin_round(running, outbox); !begun) {
      parts_.log->error("job {}: {}; the timer tries again", row.job, begun.error().message);
    }
  }
  outbox.flush();
  wake_.notify_all();
  return row.job;
}

Status Coordinator::stop_job(const std::string& job, const std::string& actor) {
  const std::lock_guard lock(mutex_);
  MUSTER_TRY(const std::optional<JobRow> row, parts_.store.find_job(job));
  if (!row)
    return Error{ErrorCode::kNotFound, fmt::format("there is no job {}", job), "job_unknown"};
  if (row->status == JobStatus::kFinished || row->status == JobStatus::kStopped) {
    return Error{ErrorCode::kFailedPrecondition,
                 fmt::format("job {} is {} already", job, to_string(row->status)), "job_ended"};
  }
  const std::string reason = fmt::format("stopped by {}", actor);
  if (JobRun* run = find_run(job)) {
    if (run->machine) {
      RoundRow round = round_row(*run, *run->machine);
      round.phase = to_string(RoundPhase::kAbandoned);
      round.reason = reason;
      round.ended_at_ms = parts_.clock.unix_ms();
      MUSTER_TRY_STATUS(parts_.store.abandon_round(round, JobStatus::kStopped, reason,
                                                   event("job_stopped", run, actor)));
      run->machine.reset();
      let_go_of_round(*run);
    } else {
      MUSTER_TRY_STATUS(parts_.store.set_job_status(job, JobStatus::kStopped, reason,
                                                    event("job_stopped", run, actor)));
    }
    run->row.status = JobStatus::kStopped;
  } else {
    EventRow stopped = event("job_stopped", nullptr, actor);
    stopped.job = job;
    MUSTER_TRY_STATUS(parts_.store.set_job_status(job, JobStatus::kStopped, reason, stopped));
  }
  parts_.log->info("job {}: {}", job, reason);
  return {};
}

Json Coordinator::live_job(const std::string& job) const {
  const std::lock_guard lock(mutex_);
  const JobRun* run = find_run(job);
  if (run == nullptr) return nullptr;
  Json live{{"round", run->round.round},
            {"attempt", run->round.attempt},
            {"evaluations_awaited", run->evaluation ? run->evaluation->pending.size() : 0},
            {"bytes_down", run->bytes_down},
            {"bytes_up", run->bytes_up}};
  if (!run->machine) {
    live["phase"] = run->all_committed() ? "evaluating" : "between rounds";
    live["explain"] =
        run->all_committed()
            ? fmt::format("all rounds are committed; {} evaluations are awaited",
                          (run->evaluation ? run->evaluation->pending.size() +
                                                 (run->evaluation->central_is_due ? 1 : 0)
                                           : 0))
            : "the next round is about to begin";
    return live;
  }
  const RoundMachine& machine = *run->machine;
  std::vector<DeviceId> candidates;
  for (const Candidate& candidate : machine.candidates()) candidates.push_back(candidate.device);
  std::sort(candidates.begin(), candidates.end());
  live["phase"] = to_string(machine.phase());
  live["explain"] = machine.explain(now());
  live["candidates"] = candidates;
  live["invited"] = machine.invited();
  live["reported"] = machine.reported();
  if (const auto deadline = machine.next_deadline()) {
    live["deadline_ms"] = std::max<std::int64_t>(0, (*deadline - now()).count());
  }
  return live;
}

}  // namespace muster
