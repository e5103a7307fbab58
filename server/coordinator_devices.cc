#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/random.h"
#include "core/tensor/safetensors.h"
#include "server/coordinator.h"

namespace muster {
namespace {

// Room for a header with other spacing or metadata than the canonical one.
constexpr std::uint64_t kHeaderSlackBytes = 4096;

Error refusal(ErrorCode code, std::string reason, std::string message) {
  return Error{code, std::move(message), std::move(reason)};
}

protocol::Receipt receipt_for(const UpdateRow& update) {
  return {update.job,     update.round,    update.device,
          *update.digest, update.examples, update.received_at_ms};
}

}  // namespace

void Coordinator::check_in(const DeviceRow& device, const protocol::CheckinRequest& request,
                           CheckinReply reply, std::function<bool()> gone) {
  Outbox outbox;
  {
    const std::lock_guard lock(mutex_);
    if (std::optional<protocol::Task> task = stopping_ ? std::nullopt : task_for(device.device)) {
      outbox.answers.push_back([reply = std::move(reply), task = *std::move(task)]() mutable {
        reply(std::move(task), {});
      });
    } else {
      // Tags that decide selection are the operator's, from the enrolment code, never the device's
      // own word.
      Candidate candidate{device.device, {device.tags.begin(), device.tags.end()}};
      WaitingDevice waiting{candidate, request.examples, now() + Time{request.wait_ms},
                            std::move(reply), std::move(gone)};
      if (auto earlier = waiting_.enter(std::move(waiting))) send_away(*std::move(earlier), outbox);
      if (request.examples > 0 && !stopping_) offer(candidate, outbox);
      const bool answer_now = request.wait_ms == 0 || stopping_;
      if (auto still = answer_now ? take_out(device.device) : std::nullopt)
        send_away(*std::move(still), outbox);
    }
  }
  outbox.flush();
  wake_.notify_all();
}

void Coordinator::offer(const Candidate& candidate, Outbox& outbox) {
  for (JobRun* run : runs_by_age()) {
    if (!waiting_.has(candidate.device)) return;
    if (Status offered = handle(*run, DeviceCheckedIn{candidate}, outbox); !offered) {
      parts_.log->error("job {}: {}", run->row.job, offered.error().message);
    }
  }
}

void Coordinator::send_away(WaitingDevice device, Outbox& outbox) {
  outbox.answers.push_back([reply = std::move(device.reply), away = pace(device.candidate.device)] {
    reply(std::nullopt, away);
  });
}

// Pace steering: the more devices there are, the wider they are spread; which device comes when is
// fixed by its name and the time.
Coordinator::Time Coordinator::pace(const DeviceId& device) const {
  const auto spread =
      static_cast<std::uint64_t>(200 + 5 * waiting_.size() + (stopping_ ? 2'000 : 0));
  const std::string instant = std::to_string(now().count());
  return Time{50 + static_cast<std::int64_t>(derive_seed(0, {"pace", device, instant}) % spread)};
}

std::optional<protocol::Task> Coordinator::task_for(const DeviceId& device) {
  for (const auto& [id, run] : runs_) {
    if (run->row.status != JobStatus::kRunning) continue;
    const auto task = run->tasks.find(device);
    if (run->machine && task != run->tasks.end() &&
        run->machine->verdict(device, now()) == UpdateVerdict::kAccept) {
      return training_task(*run, device, task->second, now());
    }
    if (!run->evaluation) continue;
    const auto pending = run->evaluation->pending.find(device);
    if (pending == run->evaluation->pending.end()) continue;
    if (!std::exchange(pending->second.handed_out, true))
      return evaluation_task(*run, pending->second.task, now());
    run->evaluation->pending.erase(pending);  // it had the task and came back without a result
  }
  return std::nullopt;
}

protocol::Task Coordinator::training_task(const JobRun& run, const DeviceId& device,
                                          const std::string& id, Time at) const {
  protocol::Task task;
  task.kind = protocol::TaskKind::kTrain;
  task.id = id;
  task.fit.job = run.row.job;
  task.fit.round = run.round.round;
  task.fit.model = run.model;
  task.fit.local = run.description.local;
  task.fit.seed = training_seed(run.description.seed, run.round.round, device);
  task.attempt = run.round.attempt;
  task.state = run.round.base;
  task.state_bytes = static_cast<std::int64_t>(run.state_bytes);
  task.max_update_bytes = static_cast<std::int64_t>(run.state_bytes + kHeaderSlackBytes);
  task.deadline_ms = run.machine->next_deadline().value_or(at).count() - at.count();
  return task;
}

Result<std::uint64_t> Coordinator::update_bytes_limit(const std::string& job) const {
  const std::lock_guard lock(limits_mutex_);
  const auto found = state_bytes_.find(job);
  if (found == state_bytes_.end()) {
    return refusal(ErrorCode::kNotFound, "job_unknown", fmt::format("there is no job {}", job));
  }
  return found->second + kHeaderSlackBytes;
}

void Coordinator::remember_state_bytes(const std::string& job, std::uint64_t bytes) {
  const std::lock_guard lock(limits_mutex_);
  state_bytes_[job] = bytes;
}

Result<Coordinator::UpdateTicket> Coordinator::examine_update(
    const std::string& device, const protocol::UpdateStatement& statement) {
  const std::lock_guard lock(mutex_);
  return examine_locked(device, statement);
}

Result<Coordinator::UpdateTicket> Coordinator::examine_locked(
    const std::string& device, const protocol::UpdateStatement& statement) {
  MUSTER_TRY(
      const std::optional<UpdateRow> earlier,
      parts_.store.find_accepted_update(statement.job, statement.round, statement.attempt, device));
  if (earlier && earlier->digest == statement.digest)
    return UpdateTicket{nullptr, receipt_for(*earlier)};
  if (earlier) {
    return refusal(
        ErrorCode::kAlreadyExists, "already_reported",
        fmt::format(
            "round {} of {} already has an update of {} with digest {}; an update counts once",
            statement.round, statement.job, device, earlier->digest->hex()));
  }
  const JobRun* run = find_run(statement.job);
  const std::string round =
      fmt::format("round {} (attempt {}) of {}", statement.round, statement.attempt, statement.job);
  const auto closed = [&] {
    return refusal(ErrorCode::kFailedPrecondition, "round_closed",
                   fmt::format("{} is closed", round));
  };
  if (run == nullptr) {
    MUSTER_TRY(const std::optional<JobRow> row, parts_.store.find_job(statement.job));
    if (row) return closed();
    return refusal(ErrorCode::kNotFound, "job_unknown",
                   fmt::format("there is no job {}", statement.job));
  }
  const auto asked = std::pair(statement.round, statement.attempt);
  const auto open = std::pair(run->round.round, run->round.attempt);
  if (asked < open || !run->machine) return closed();
  if (asked > open) {
    return refusal(ErrorCode::kFailedPrecondition, "round_not_open",
                   fmt::format("{} is not open; the open one is round {} (attempt {})", round,
                               open.first, open.second));
  }
  switch (run->machine->verdict(device, now())) {
    case UpdateVerdict::kAccept:
      break;
    case UpdateVerdict::kNotOpen:
      return refusal(ErrorCode::kFailedPrecondition, "round_not_open",
                     fmt::format("{} is still selecting its devices", round));
    case UpdateVerdict::kNotSelected:
      return refusal(ErrorCode::kPermissionDenied, "not_selected",
                     fmt::format("{} is not part of {}", device, round));
    case UpdateVerdict::kAlreadyReported:
    case UpdateVerdict::kClosed:
      return closed();
  }
  if (run->tasks.at(device) != statement.task) {
    return refusal(
        ErrorCode::kPermissionDenied, "identity_mismatch",
        fmt::format("the update's task is not the one that {} was given for {}", device, round));
  }
  if (statement.base != run->round.base) {
    return refusal(ErrorCode::kFailedPrecondition, "stale_base",
                   fmt::format("the update was trained from state {}; {} trains from {}",
                               statement.base.hex(), round, run->round.base.hex()));
  }
  return UpdateTicket{run->layout, std::nullopt};
}

Result<protocol::Receipt> Coordinator::accept_update(UpdateRow update,
                                                     const protocol::UpdateStatement& statement) {
  Outbox outbox;
  protocol::Receipt receipt;
  {
    const std::lock_guard lock(mutex_);
    MUSTER_TRY(const UpdateTicket ticket, examine_locked(update.device, statement));
    if (ticket.receipt) return *ticket.receipt;
    JobRun& run = *find_run(statement.job);
    RoundMachine next = *run.machine;
    const std::vector<RoundAction> actions = next.on(UpdateStored{update.device}, now());
    RoundRow row = round_row(run, next);
    row.bytes_up += update.bytes;
    update.accepted = true;
    update.received_at_ms = parts_.clock.unix_ms();
    MUSTER_TRY_STATUS(parts_.store.accept_update(update, row,
                                                 event("update_accepted", &run, update.device,
                                                       Json{{"attempt", update.attempt},
                                                            {"digest", update.digest->hex()},
                                                            {"examples", update.examples}})));
    run.round = std::move(row);
    run.bytes_up += update.bytes;
    run.machine = next;
    receipt = receipt_for(update);
    for (const RoundAction& action : actions) {
      if (Status done = carry_out(run, next, action, outbox); !done) {
        parts_.log->error("job {}: {}", run.row.job, done.error().message);
        // The update is counted; a restored machine does at its next tick what that led to.
        if (auto again = RoundMachine::restore(run.description.round, next.save(now()), now())) {
          run.machine = *std::move(again);
        }
      }
    }
  }
  outbox.flush();
  wake_.notify_all();
  return receipt;
}

void Coordinator::refuse_update(UpdateRow update, const Error& why) {
  const std::optional<std::uint64_t> left_out = refusals_.admit();
  if (!left_out) return;
  update.accepted = false;
  update.reason = why.reason.empty() ? std::string(to_string(why.code)) : why.reason;
  update.detail = why.message;
  update.received_at_ms = parts_.clock.unix_ms();
  Json details{{"reason", update.reason}, {"detail", update.detail}};
  if (*left_out > 0) details["refusals_left_out"] = *left_out;
  EventRow refused = event("update_refused", nullptr, update.device, std::move(details));
  refused.job = update.job;
  refused.round = update.round;
  parts_.log->warn("update of {} for round {} of {} refused: {}", update.device, update.round,
                   update.job, why.message);
  if (Status stored = parts_.store.refuse_update(update, refused); !stored) {
    parts_.log->error("a refused update could not be recorded: {}", stored.error().message);
  }
}

void Coordinator::count_download(const std::string& device, const Digest& state,
                                 std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, run] : runs_) {
    if (run->row.global_state != state || run->row.status != JobStatus::kRunning) continue;
    const bool evaluates = run->evaluation && run->evaluation->pending.contains(device);
    if (!run->tasks.contains(device) && !evaluates) continue;
    if (run->machine) {
      run->bytes_down += static_cast<std::int64_t>(bytes);  // stored with the round's next step
    } else if (Status added = parts_.store.add_round_bytes(id, run->round.round, run->round.attempt,
                                                           static_cast<std::int64_t>(bytes), 0);
               !added) {
      parts_.log->error("job {}: {}", id, added.error().message);
    }
    return;
  }
}

std::string Coordinator::device_activity(const std::string& device) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, run] : runs_) {
    if (run->machine && run->tasks.contains(device) &&
        run->machine->verdict(device, now()) == UpdateVerdict::kAccept) {
      return fmt::format("training {} round {}", id, run->round.round);
    }
    if (run->evaluation && run->evaluation->pending.contains(device))
      return fmt::format("evaluating {}", id);
  }
  return waiting_.has(device) ? "waiting" : "";
}

}  // namespace muster
