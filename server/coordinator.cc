#include "server/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster {
namespace {

constexpr std::chrono::milliseconds kLongestTimerWait{
    1'000};  // also how soon a hung-up peer is noticed
constexpr std::chrono::milliseconds kRetryAfterFailure{1'000};

}  // namespace

Coordinator::Coordinator(Parts parts) : parts_(std::move(parts)), held_(parts_.states) {}

Coordinator::~Coordinator() {
  stop();
}

Status Coordinator::start() {
  compute_ = std::make_unique<ComputeThread>();
  Outbox outbox;
  {
    const std::lock_guard lock(mutex_);
    MUSTER_TRY_STATUS(resume_jobs());
    tick(outbox);
  }
  outbox.flush();
  timer_ = std::jthread([this](std::stop_token stop) { run_timer(stop); });
  return {};
}

void Coordinator::stop() {
  Outbox outbox;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    for (WaitingDevice& device : waiting_.leave_all()) send_away(std::move(device), outbox);
  }
  outbox.flush();
  if (timer_.joinable()) {
    timer_.request_stop();
    timer_.join();
  }
  if (compute_) compute_->stop();
}

Status Coordinator::resume_jobs() {
  MUSTER_TRY(const std::vector<JobRow> rows, parts_.store.list_jobs());
  std::vector<UpdateFiles::OpenRound> open;
  for (const JobRow& row : rows) {
    if (const auto bytes = most_update_bytes(row)) remember_update_bytes(row.job, *bytes);
    if (row.status != JobStatus::kRunning) continue;
    auto resumed = resume_job_run(parts_.store, row, parts_.max_state_bytes, now());
    for (const Digest& state : {row.global_state, row.rule_state.value_or(row.global_state)}) {
      if (!resumed || parts_.states.has(state)) continue;
      resumed = Error{ErrorCode::kInvalidArgument,
                      fmt::format("the file of its state {} is missing; restore states/ from a "
                                  "back-up and submit the job again",
                                  state.hex()),
                      "bad_job"};
    }
    if (!resumed) {
      MUSTER_TRY_STATUS(pause_unrunnable(row, resumed.error()));
      continue;
    }
    JobRun& run = *runs_.emplace(row.job, *std::move(resumed)).first->second;
    parts_.log->info("job {} goes on: {} of {} rounds committed", row.job, row.rounds_committed,
                     run.strategy().rounds);
    if (run.machine) open.push_back({row.job, run.round.round, run.round.attempt});
    if (run.evaluation && run.evaluation->central_is_due) evaluate_centrally(run);
  }
  parts_.updates.keep_only(open);
  return {};
}

// A job whose description or saved round this build cannot take up again (its test data is gone,
// say) is paused, so that the others run. An error of the store is none of the job's: then the
// server does not start.
Status Coordinator::pause_unrunnable(const JobRow& row, const Error& why) {
  if (why.reason != "bad_job" && why.reason != "bad_test_data" && why.reason != "bad_round")
    return with_context(why, "job " + row.job);
  parts_.log->error("job {} cannot go on: {}", row.job, why.message);
  EventRow paused = event("job_paused", nullptr, {}, Json{{"reason", why.message}});
  paused.job = row.job;
  MUSTER_TRY(std::optional<RoundRow> round,
             parts_.store.find_round(row.job, row.rounds_committed + 1));
  if (!round || round->phase == to_string(RoundPhase::kAbandoned)) {
    return parts_.store.set_job_status(row.job, JobStatus::kPaused, why.message, paused);
  }
  round->phase = to_string(RoundPhase::kAbandoned);
  round->reason = why.message;
  round->ended_at_ms = parts_.clock.unix_ms();
  paused.round = round->round;
  return parts_.store.abandon_round(*round, JobStatus::kPaused, why.message, paused);
}

void Coordinator::run_timer(std::stop_token stop) {
  while (!stop.stop_requested()) {
    Outbox outbox;
    {
      std::unique_lock lock(mutex_);
      const Time wake = next_wake().value_or(now() + kLongestTimerWait);
      const Time pause = std::clamp(wake - now(), Time{0}, kLongestTimerWait);
      // A change may have brought a deadline that is sooner than the one waited for.
      wake_.wait_for(lock, stop, pause, [&] {
        const std::optional<Time> next = next_wake();
        return next && *next < wake;
      });
      if (stop.stop_requested()) return;
      tick(outbox);
    }
    outbox.flush();
  }
}

void Coordinator::tick(Outbox& outbox) {
  if (Status usable = parts_.store.check_usable(); !usable && parts_.fatal)
    parts_.fatal(usable.error());
  const Time at = now();
  for (WaitingDevice& device : waiting_.leave_expired(at)) {
    withdraw(device.candidate.device);
    send_away(std::move(device), outbox);
  }
  for (auto& [id, run] : runs_) {
    if (at < run->retry_at) continue;
    if (Status stepped = step(*run, outbox); !stepped) retry_later(*run, stepped.error());
  }
  std::erase_if(runs_,
                [](const auto& entry) { return entry.second->row.status != JobStatus::kRunning; });
}

void Coordinator::retry_later(JobRun& run, const Error& why) {
  parts_.log->error("job {} round {}: {}; trying again in {} ms", run.row.job, run.round.round,
                    why.message, kRetryAfterFailure.count());
  run.retry_at = now() + kRetryAfterFailure;
}

// What the time, or a step that failed before, makes due for one job.
Status Coordinator::step(JobRun& run, Outbox& outbox) {
  if (run.row.status != JobStatus::kRunning) return {};
  if (run.machine) {
    MUSTER_TRY_STATUS(take_aggregate(run, outbox));
    if (run.machine && run.offer_again) MUSTER_TRY_STATUS(offer_all_waiting(run, outbox));
    MUSTER_TRY_STATUS(handle(run, Tick{}, outbox));
  } else if (!run.all_committed()) {
    MUSTER_TRY_STATUS(begin_round(run, outbox));
  }
  return run.row.status == JobStatus::kRunning ? settle_evaluation(run) : Status();
}

std::optional<Coordinator::Time> Coordinator::next_wake() const {
  std::optional<Time> next = waiting_.next_expiry();
  const auto sooner = [&next](Time at) { next = next ? std::min(*next, at) : at; };
  for (const auto& [id, run] : runs_) {
    if (run->machine) {
      if (const auto deadline = run->machine->next_deadline())
        sooner(std::max(*deadline, run->retry_at));
    }
    if (run->evaluation) sooner(std::max(run->evaluation->expires_at, run->retry_at));
  }
  return next;
}

std::vector<JobRun*> Coordinator::runs_by_age() {
  std::vector<JobRun*> runs;
  for (auto& [id, run] : runs_) runs.push_back(run.get());
  std::ranges::stable_sort(runs, {}, [](const JobRun* run) { return run->round.started_at_ms; });
  return runs;
}

JobRun* Coordinator::find_run(const std::string& job) {
  return const_cast<JobRun*>(std::as_const(*this).find_run(job));
}

const JobRun* Coordinator::find_run(const std::string& job) const {
  const auto found = runs_.find(job);
  const bool running = found != runs_.end() && found->second->row.status == JobStatus::kRunning;
  return running ? found->second.get() : nullptr;
}

EventRow Coordinator::event(std::string kind, const JobRun* run, std::string actor,
                            Json details) const {
  EventRow row;
  row.at_ms = parts_.clock.unix_ms();
  row.kind = std::move(kind);
  if (run != nullptr) {
    row.job = run->row.job;
    row.round = run->round.round;
  }
  row.actor = std::move(actor);
  row.details = std::move(details);
  return row;
}

}  // namespace muster
