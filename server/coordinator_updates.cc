#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/coordinator.h"

// What becomes of a device's update.
namespace muster {
namespace {

Error refusal(ErrorCode code, std::string reason, std::string message) {
  return Error{code, std::move(message), std::move(reason)};
}

std::string round_text(const protocol::UpdateStatement& statement) {
  return fmt::format("round {} (attempt {}) of {}", statement.round, statement.attempt,
                     statement.job);
}

Error round_closed(const protocol::UpdateStatement& statement, const std::string& why = {}) {
  return refusal(ErrorCode::kFailedPrecondition, "round_closed",
                 fmt::format("{} is closed{}", round_text(statement), why));
}

// The statement is of the task that the device has.
Status check_task(const OpenTask& task, const std::string& device,
                  const protocol::UpdateStatement& statement) {
  if (task.id != statement.task) {
    return refusal(ErrorCode::kPermissionDenied, "identity_mismatch",
                   fmt::format("the update's task is not the one that {} was given for {}", device,
                               round_text(statement)));
  }
  if (task.round != statement.round || task.attempt != statement.attempt) {
    return refusal(ErrorCode::kPermissionDenied, "identity_mismatch",
                   fmt::format("the update's task was given to {} for round {} (attempt {}), not "
                               "for {}",
                               device, task.round, task.attempt, round_text(statement)));
  }
  if (statement.base != task.base) {
    return refusal(ErrorCode::kFailedPrecondition, "stale_base",
                   fmt::format("the update was trained from state {}; {} trains from {}",
                               statement.base.hex(), round_text(statement), task.base.hex()));
  }
  return {};
}

// Names the round of the task, which the device knows, and not the one that counted it.
protocol::Receipt receipt_for(const UpdateRow& update) {
  return {update.job,      update.round - update.staleness,
          update.device,   *update.digest,
          update.examples, update.received_at_ms};
}

}  // namespace

Result<Coordinator::UpdateTicket> Coordinator::examine_update(
    const std::string& device, const protocol::UpdateStatement& statement) {
  const std::lock_guard lock(mutex_);
  return examine_locked(device, statement);
}

Result<std::optional<UpdateRow>> Coordinator::earlier_update(
    const JobRun* run, const std::string& device,
    const protocol::UpdateStatement& statement) const {
  MUSTER_TRY(
      std::optional<UpdateRow> earlier,
      parts_.store.find_accepted_update(statement.job, statement.round, statement.attempt, device));
  if (earlier || (run != nullptr && !run->asynchronous())) return earlier;
  // In an asynchronous job a later round may have counted it.
  MUSTER_TRY(earlier, parts_.store.find_update_of_task(statement.task, device));
  const bool same = earlier && earlier->job == statement.job &&
                    earlier->round - earlier->staleness == statement.round;
  if (!same) earlier.reset();
  return earlier;
}

Result<Coordinator::UpdateTicket> Coordinator::examine_locked(
    const std::string& device, const protocol::UpdateStatement& statement) {
  const JobRun* run = find_run(statement.job);
  MUSTER_TRY(const std::optional<UpdateRow> earlier, earlier_update(run, device, statement));
  if (earlier && earlier->digest == statement.digest) {
    UpdateTicket ticket;
    ticket.receipt = receipt_for(*earlier);
    return ticket;
  }
  if (earlier) {
    return refusal(
        ErrorCode::kAlreadyExists, "already_reported",
        fmt::format(
            "round {} of {} already has an update of {} with digest {}; an update counts once",
            statement.round, statement.job, device, earlier->digest->hex()));
  }
  if (run == nullptr) {
    MUSTER_TRY(const std::optional<JobRow> row, parts_.store.find_job(statement.job));
    if (row) return round_closed(statement);
    return refusal(ErrorCode::kNotFound, "job_unknown",
                   fmt::format("there is no job {}", statement.job));
  }
  MUSTER_TRY_STATUS(run->asynchronous() ? check_open_asynchronous(*run, device, statement)
                                        : check_open(*run, device, statement));
  UpdateLimits limits = run->description.checks;
  limits.max_examples = std::min(limits.max_examples, parts_.limits.max_examples);
  return UpdateTicket{.receipt = std::nullopt,
                      .layout = run->layout,
                      .aggregation = run->aggregation,
                      .limits = limits,
                      .round = run->round.round,
                      .attempt = run->round.attempt,
                      .staleness = run->round.round - statement.round,
                      .asynchronous = run->asynchronous(),
                      .global = run->round.base};
}

Status Coordinator::check_open(const JobRun& run, const std::string& device,
                               const protocol::UpdateStatement& statement) const {
  const std::string round = round_text(statement);
  const auto asked = std::pair(statement.round, statement.attempt);
  const auto open = std::pair(run.round.round, run.round.attempt);
  if (asked < open || !run.machine) return round_closed(statement);
  if (asked > open) {
    return refusal(ErrorCode::kFailedPrecondition, "round_not_open",
                   fmt::format("{} is not open; the open one is round {} (attempt {})", round,
                               open.first, open.second));
  }
  switch (run.machine->verdict(device, now())) {
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
      return round_closed(statement);
  }
  return check_task(run.tasks.at(device), device, statement);
}

// A task may be older than the round under way. Between two rounds, and while a buffer is being
// aggregated, an update has to wait: it counts in the next one.
Status Coordinator::check_open_asynchronous(const JobRun& run, const std::string& device,
                                            const protocol::UpdateStatement& statement) const {
  if (statement.round > run.round.round) {
    return refusal(ErrorCode::kFailedPrecondition, "round_not_open",
                   fmt::format("{} is not open; the open one is round {}", round_text(statement),
                               run.round.round));
  }
  const auto task = run.tasks.find(device);
  const bool open = task != run.tasks.end() && task->second.id == statement.task;
  if (!open) {
    const auto& buffer = std::get<FedBuff>(run.aggregation.rule);
    const std::int64_t staleness = run.round.round - statement.round;
    if (staleness > buffer.max_staleness) {
      return round_closed(statement, fmt::format(": {} states were committed since it began, the "
                                                 "job's max_staleness is {}",
                                                 staleness, buffer.max_staleness));
    }
    if (std::pair(statement.round, statement.attempt) <
        std::pair(run.round.round, run.round.attempt)) {
      return round_closed(statement);
    }
  }
  if (task == run.tasks.end()) {
    return refusal(ErrorCode::kPermissionDenied, "not_selected",
                   fmt::format("{} is not part of {}", device, round_text(statement)));
  }
  MUSTER_TRY_STATUS(check_task(task->second, device, statement));
  if (run.machine && run.machine->verdict(device, now()) == UpdateVerdict::kAccept) return {};
  if (run.all_committed()) return round_closed(statement);
  return refusal(ErrorCode::kUnavailable, "between_rounds",
                 fmt::format("the buffer of round {} of {} is full; the next one takes it",
                             run.round.round, statement.job));
}

Result<protocol::Receipt> Coordinator::accept_update(UpdateRow update,
                                                     const protocol::UpdateStatement& statement,
                                                     const PlaceUpdate& place) {
  Outbox outbox;
  protocol::Receipt receipt;
  {
    const std::lock_guard lock(mutex_);
    MUSTER_TRY(const UpdateTicket ticket, examine_locked(update.device, statement));
    if (ticket.receipt) return *ticket.receipt;
    update.round = ticket.round;
    update.attempt = ticket.attempt;
    update.staleness = ticket.staleness;
    if (place) {
      MUSTER_TRY_STATUS(
          place({update.job, update.round, update.attempt, update.device, *update.digest}));
    }
    JobRun& run = *find_run(statement.job);
    RoundMachine next = *run.machine;
    const std::vector<RoundAction> actions = next.on(UpdateStored{update.device}, now());
    RoundRow row = round_row(run, next);
    row.bytes_up += update.bytes;
    update.accepted = true;
    update.received_at_ms = parts_.clock.unix_ms();
    Json details{{"attempt", update.attempt},
                 {"digest", update.digest->hex()},
                 {"examples", update.examples}};
    if (run.asynchronous()) details["staleness"] = update.staleness;
    MUSTER_TRY_STATUS(parts_.store.accept_update(
        update, row, event("update_accepted", &run, update.device, std::move(details))));
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
          run.offer_again = true;
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

}  // namespace muster
