#include "server/coordinator.h"

#include <algorithm>
#include <utility>

namespace muster {
namespace {

constexpr std::chrono::milliseconds kLongestTimerWait{
    1'000};  // also how soon a hung-up peer is noticed
constexpr std::chrono::milliseconds kRetryAfterFailure{1'000};

}  // namespace

Coordinator::Coordinator(Parts parts) : parts_(std::move(parts)) {}

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
    if (const auto bytes = parts_.states.size_of(row.global_state))
      remember_state_bytes(row.job, *bytes);
    if (row.status != JobStatus::kRunning) continue;
    auto run = resume_job_run(parts_.store, row, parts_.max_state_bytes, now());
    if (!run) {
      // A job that cannot go on (its test data is gone, say) must not keep the others from running.
      parts_.log->error("job {} cannot go on: {}", row.job, run.error().message);
      MUSTER_TRY(const auto round, parts_.store.find_round(row.job, row.rounds_committed + 1));
      if (round) open.push_back({row.job, round->round, round->attempt});  // its updates stay
      MUSTER_TRY_STATUS(parts_.store.set_job_status(
          row.job, JobStatus::kPaused, run.error().message, event("job_paused", nullptr)));
      continue;
    }
    parts_.log->info("job {} goes on: {} of {} rounds committed", row.job, row.rounds_committed,
                     (*run)->strategy().rounds);
    JobRun& resumed = *runs_.emplace(row.job, *std::move(run)).first->second;
    if (resumed.machine) open.push_back({row.job, resumed.round.round, resumed.round.attempt});
    if (resumed.central_evaluation_pending) evaluate_centrally(resumed);
    if (resumed.row.rounds_committed > 0) MUSTER_TRY_STATUS(settle_evaluations(resumed));
  }
  parts_.updates.keep_only(open);
  return {};
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
  const Time at = now();
  for (WaitingDevice& device : waiting_.leave_expired(at)) {
    for (auto& [id, run] : runs_) {
      if (Status left = handle(*run, DeviceLeft{device.candidate.device}, outbox); !left) {
        parts_.log->error("job {}: {}", id, left.error().message);
      }
    }
    send_away(std::move(device), outbox);
  }
  if (at < retry_not_before_) return;
  for (auto& [id, run] : runs_) {
    Status stepped = [&]() -> Status {
      if (run->machine) {
        MUSTER_TRY_STATUS(take_aggregate(*run, outbox));
        MUSTER_TRY_STATUS(handle(*run, Tick{}, outbox));
      } else if (!run->all_committed() && run->row.status == JobStatus::kRunning) {
        MUSTER_TRY_STATUS(begin_round(*run, outbox));
      }
      return settle_evaluations(*run);
    }();
    if (!stepped) {
      parts_.log->error("job {}: {}; trying again in {} ms", id, stepped.error().message,
                        kRetryAfterFailure.count());
      retry_not_before_ = at + kRetryAfterFailure;
    }
  }
  std::erase_if(runs_,
                [](const auto& entry) { return entry.second->row.status != JobStatus::kRunning; });
}

std::optional<Coordinator::Time> Coordinator::next_wake() const {
  std::optional<Time> next = waiting_.next_expiry();
  const auto sooner = [&next](Time at) { next = next ? std::min(*next, at) : at; };
  for (const auto& [id, run] : runs_) {
    if (run->machine) {
      if (const auto deadline = run->machine->next_deadline()) sooner(*deadline);
    }
    for (const auto& [device, pending] : run->evaluations) sooner(pending.expires_at);
  }
  if (next) next = std::max(*next, retry_not_before_);
  return next;
}

JobRun* Coordinator::find_run(const std::string& job) {
  const auto found = runs_.find(job);
  const bool running = found != runs_.end() && found->second->row.status == JobStatus::kRunning;
  return running ? found->second.get() : nullptr;
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
