#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/entropy.h"
#include "server/coordinator.h"

namespace muster {
namespace {

// Weighted by examples over the accepted updates: what the devices said of their own training.
Json training_metrics(const std::vector<UpdateRow>& accepted) {
  double loss = 0;
  double weight = 0;
  std::int64_t examples = 0;
  for (const UpdateRow& update : accepted) {
    examples += update.examples;
    if (!update.metrics.contains("loss") || !update.metrics["loss"].is_number()) continue;
    loss += update.metrics["loss"].get<double>() * static_cast<double>(update.examples);
    weight += static_cast<double>(update.examples);
  }
  Json metrics{{"examples", examples}, {"updates", accepted.size()}};
  if (weight > 0 && std::isfinite(loss / weight)) metrics["train_loss"] = loss / weight;
  return metrics;
}

}  // namespace

Status Coordinator::begin_round(JobRun& run, Outbox& outbox) {
  RoundRow row;
  row.job = run.row.job;
  row.round = run.row.rounds_committed + 1;
  row.attempt = run.round.round == row.round ? run.round.attempt + 1 : 1;
  row.seed = selection_seed(run.description.seed, row.round, row.attempt);
  row.base = run.row.global_state;
  row.started_at_ms = parts_.clock.unix_ms();
  RoundMachine machine(run.description.round, row.seed, now());
  row.phase = to_string(machine.phase());
  row.reason = machine.explain(now());
  row.machine = machine.save(now());

  EventRow begun =
      event("round_begun", &run, {}, Json{{"attempt", row.attempt}, {"base", row.base.hex()}});
  begun.round = row.round;
  MUSTER_TRY_STATUS(parts_.store.begin_round(row, begun));
  run.round = std::move(row);
  run.machine = std::move(machine);
  run.tasks.clear();
  run.aggregated.reset();
  run.offer_again = true;  // until everyone who waits has been offered
  run.bytes_down = run.bytes_up = 0;

  return offer_all_waiting(run, outbox);
}

Status Coordinator::offer_all_waiting(JobRun& run, Outbox& outbox) {
  RoundMachine next = *run.machine;
  for (const auto& [device, waiting] : waiting_.all()) {
    if (waiting.examples == 0) continue;
    const std::vector<RoundAction> actions = next.on(DeviceCheckedIn{waiting.candidate}, now());
    if (actions.empty()) continue;
    MUSTER_TRY_STATUS(carry_out(run, next, actions.front(), outbox));
    run.offer_again = false;
    return {};
  }
  run.machine = std::move(next);
  run.offer_again = false;
  return {};
}

Status Coordinator::handle(JobRun& run, const RoundEvent& event, Outbox& outbox) {
  if (!run.machine) return {};
  RoundMachine next = *run.machine;
  const std::vector<RoundAction> actions = next.on(event, now());
  if (actions.empty()) {
    run.machine = std::move(next);
    return {};
  }
  for (const RoundAction& action : actions) {
    if (Status done = carry_out(run, next, action, outbox); !done) {
      run.offer_again = true;  // the event is lost with `next`
      return done;
    }
  }
  return {};
}

Status Coordinator::carry_out(JobRun& run, const RoundMachine& next, const RoundAction& action,
                              Outbox& outbox) {
  if (const auto* invited = std::get_if<InviteDevices>(&action))
    return invite(run, next, *invited, outbox);
  if (const auto* start = std::get_if<StartAggregation>(&action))
    return aggregate(run, next, *start);
  if (const auto* committed = std::get_if<CommitRound>(&action))
    return commit(run, next, *committed, outbox);
  return abandon(run, next, std::get<AbandonRound>(action), outbox);
}

RoundRow Coordinator::round_row(const JobRun& run, const RoundMachine& next) const {
  RoundRow row = run.round;
  row.phase = to_string(next.phase());
  row.reason = next.explain(now());
  row.machine = next.save(now());
  row.bytes_down = run.bytes_down;
  row.bytes_up = run.bytes_up;
  return row;
}

Status Coordinator::invite(JobRun& run, const RoundMachine& next, const InviteDevices& action,
                           Outbox& outbox) {
  MUSTER_TRY_STATUS(parts_.updates.prepare_round(run.row.job, run.round.round, run.round.attempt));
  RoundRow row = round_row(run, next);
  std::vector<ParticipantRow> participants;
  std::map<DeviceId, std::string> tasks;
  for (const DeviceId& device : action.devices) {
    MUSTER_TRY(const std::string task, random_hex(16));
    tasks[device] = task;
    participants.push_back({row.job, row.round, row.attempt, device, task, parts_.clock.unix_ms()});
  }
  MUSTER_TRY_STATUS(parts_.store.save_selection(
      row, participants,
      event("devices_selected", &run, {}, Json{{"devices", action.devices}, {"seed", row.seed}})));
  run.round = std::move(row);
  run.machine = next;
  run.tasks = std::move(tasks);
  parts_.log->info("job {} round {}: {} devices invited", run.row.job, run.round.round,
                   action.devices.size());

  for (const auto& [device, task] : run.tasks) {
    if (auto waiting = take_out(device))
      give(*std::move(waiting), training_task(run, device, task, now()), outbox);
  }
  return {};
}

std::optional<WaitingDevice> Coordinator::take_out(const DeviceId& device) {
  std::optional<WaitingDevice> waiting = waiting_.leave(device);
  if (waiting) withdraw(device);
  return waiting;
}

void Coordinator::withdraw(const DeviceId& device) {
  for (auto& [id, run] : runs_) {
    if (run->machine) run->machine->on(DeviceLeft{device}, now());
  }
}

void Coordinator::give(WaitingDevice device, protocol::Task task, Outbox& outbox) {
  outbox.answers.push_back([reply = std::move(device.reply), task = std::move(task)]() mutable {
    reply(std::move(task), {});
  });
}

Status Coordinator::aggregate(JobRun& run, const RoundMachine& next,
                              const StartAggregation& action) {
  MUSTER_TRY(const std::vector<UpdateRow> accepted,
             parts_.store.list_accepted_updates(run.row.job, run.round.round, run.round.attempt));
  std::vector<StoredUpdate> ordered;  // by device: the order that fixes the bits
  for (const UpdateRow& update : accepted) {
    if (!std::ranges::binary_search(action.devices, update.device)) continue;
    ordered.push_back({{update.job, update.round, update.attempt, update.device, *update.digest},
                       update.examples});
  }
  RoundRow row = round_row(run, next);
  MUSTER_TRY_STATUS(parts_.store.save_round(row));
  run.round = std::move(row);
  run.machine = next;
  compute_->post([this, ordered = std::move(ordered), wanted = action.devices.size(),
                  layout = run.layout, job = run.row.job, round = run.round.round,
                  attempt = run.round.attempt](std::stop_token stop) {
    Result<Digest> result =
        Error{ErrorCode::kDataLoss,
              fmt::format("the store has {} of the {} accepted updates", ordered.size(), wanted)};
    if (ordered.size() == wanted)
      result = aggregate_round(parts_.updates, parts_.states, layout, ordered, stop);
    aggregation_done(job, round, attempt, std::move(result));
  });
  return {};
}

void Coordinator::aggregation_done(const std::string& job, std::int64_t round, std::int64_t attempt,
                                   Result<Digest> result) {
  Outbox outbox;
  {
    const std::lock_guard lock(mutex_);
    JobRun* run = find_run(job);
    if (run == nullptr || !run->machine || run->round.round != round ||
        run->round.attempt != attempt)
      return;
    run->aggregated = std::move(result);
    if (Status taken = take_aggregate(*run, outbox); !taken) retry_later(*run, taken.error());
  }
  outbox.flush();
  wake_.notify_all();
}

Status Coordinator::take_aggregate(JobRun& run, Outbox& outbox) {
  if (!run.aggregated) return {};
  const Result<Digest> result = *run.aggregated;
  if (result) return handle(run, AggregateStored{*result}, outbox);
  const ErrorCode code = result.error().code;
  const bool may_pass = code == ErrorCode::kResourceExhausted || code == ErrorCode::kUnavailable ||
                        code == ErrorCode::kCancelled;
  if (!may_pass) return handle(run, AggregateFailed{result.error().message}, outbox);
  // A full disk is no fault of the updates: they stay, and a restored machine aggregates again at
  // its next tick.
  MUSTER_TRY(run.machine,
             RoundMachine::restore(run.description.round, run.machine->save(now()), now()));
  run.aggregated.reset();
  return result.error();
}

Status Coordinator::commit(JobRun& run, const RoundMachine& next, const CommitRound& action,
                           Outbox& outbox) {
  // What has come of the last round's evaluation is written before this one's begins.
  MUSTER_TRY_STATUS(settle_evaluation(run, /*now_or_never=*/true));
  MUSTER_TRY(const std::vector<UpdateRow> updates,
             parts_.store.list_accepted_updates(run.row.job, run.round.round, run.round.attempt));
  MUSTER_TRY(const std::vector<EvaluationRow> asked, evaluations_to_ask(run, next.reported()));
  RoundRow row = round_row(run, next);
  row.state = action.state;
  row.ended_at_ms = parts_.clock.unix_ms();
  row.metrics = training_metrics(updates);
  MUSTER_TRY_STATUS(parts_.store.commit_round(
      row, JobStatus::kRunning, {},
      event("round_committed", &run, {},
            Json{{"state", action.state.hex()}, {"metrics", row.metrics}}),
      asked));
  run.round = std::move(row);
  run.machine.reset();
  run.aggregated.reset();
  run.row.global_state = action.state;
  run.row.rounds_committed = run.round.round;
  parts_.updates.remove_round(run.row.job, run.round.round, run.round.attempt);
  parts_.log->info("job {} round {}: committed {}", run.row.job, run.round.round,
                   action.state.hex().substr(0, 12));

  if (!asked.empty() || run.test_data != nullptr) begin_evaluation(run, asked, outbox);
  if (!run.all_committed()) return begin_round(run, outbox);
  return finish_if_done(run);
}

Status Coordinator::abandon(JobRun& run, const RoundMachine& next, const AbandonRound& action,
                            Outbox& outbox) {
  RoundRow row = round_row(run, next);
  row.ended_at_ms = parts_.clock.unix_ms();
  const bool last = row.attempt >= run.description.round.max_attempts;
  const std::string job_reason =
      last ? fmt::format("round {} was abandoned {} times; the last time: {}", row.round,
                         row.attempt, action.reason)
           : std::string();
  MUSTER_TRY_STATUS(
      parts_.store.abandon_round(row, last ? JobStatus::kPaused : JobStatus::kRunning, job_reason,
                                 event("round_abandoned", &run, {},
                                       Json{{"attempt", row.attempt}, {"reason", action.reason}})));
  run.round = std::move(row);
  run.machine.reset();
  run.aggregated.reset();
  parts_.updates.remove_round(run.row.job, run.round.round, run.round.attempt);
  parts_.log->warn("job {} round {}: abandoned: {}", run.row.job, run.round.round, action.reason);
  if (!last) return begin_round(run, outbox);
  if (Status settled = settle_evaluation(run, /*now_or_never=*/true); !settled) {
    parts_.log->error("job {}: {}", run.row.job, settled.error().message);
  }
  run.row.status = JobStatus::kPaused;
  run.row.status_reason = job_reason;
  return {};
}

}  // namespace muster
