#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/entropy.h"
#include "server/coordinator.h"

namespace muster {
namespace {

// Weighted by examples over the accepted updates: what the devices said of their own training.
Json training_metrics(const std::vector<UpdateRow>& accepted, bool asynchronous) {
  double loss = 0;
  double staleness = 0;
  double weight = 0;
  std::int64_t examples = 0;
  for (const UpdateRow& update : accepted) {
    examples += update.examples;
    staleness += static_cast<double>(update.staleness);
    if (!update.metrics.contains("loss") || !update.metrics["loss"].is_number()) continue;
    loss += update.metrics["loss"].get<double>() * static_cast<double>(update.examples);
    weight += static_cast<double>(update.examples);
  }
  Json metrics{{"examples", examples}, {"updates", accepted.size()}};
  if (weight > 0 && std::isfinite(loss / weight)) metrics["train_loss"] = loss / weight;
  if (asynchronous && !accepted.empty()) {
    metrics["staleness"] = staleness / static_cast<double>(accepted.size());
  }
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
  // An asynchronous round trains from its first moment on.
  if (run.asynchronous()) {
    MUSTER_TRY_STATUS(parts_.updates.prepare_round(row.job, row.round, row.attempt));
  }
  MUSTER_TRY(const std::vector<ParticipantRow> carried,
             carried_over(parts_.store, run.description, row));
  MUSTER_TRY(auto tasks, tasks_of(parts_.store, row, carried));
  std::vector<DeviceId> training;
  for (const ParticipantRow& participant : carried) training.push_back(participant.device);
  RoundMachine machine(run.description.round, row.seed, now(), std::move(training));
  row.phase = to_string(machine.phase());
  row.reason = machine.explain(now());
  row.machine = machine.save(now());

  EventRow begun =
      event("round_begun", &run, {}, Json{{"attempt", row.attempt}, {"base", row.base.hex()}});
  begun.round = row.round;
  MUSTER_TRY_STATUS(parts_.store.begin_round(row, begun, carried));
  run.round = std::move(row);
  run.machine = std::move(machine);
  run.tasks = std::move(tasks);
  run.aggregated.reset();
  run.offer_again = true;  // until everyone who waits has been offered
  run.bytes_down = run.bytes_up = 0;
  give_tasks(run, outbox);

  return offer_all_waiting(run, outbox);
}

Status Coordinator::offer_all_waiting(JobRun& run, Outbox& outbox) {
  RoundMachine next = *run.machine;
  InviteDevices together;  // an asynchronous round invites them one by one
  for (const auto& [device, waiting] : waiting_.all()) {
    if (waiting.examples == 0) continue;
    for (const RoundAction& action : next.on(DeviceCheckedIn{waiting.candidate}, now())) {
      if (const auto* invited = std::get_if<InviteDevices>(&action)) {
        together.devices.insert(together.devices.end(), invited->devices.begin(),
                                invited->devices.end());
        continue;
      }
      MUSTER_TRY_STATUS(carry_out(run, next, action, outbox));
      run.offer_again = false;
      return {};
    }
  }
  if (together.devices.empty()) {
    run.machine = std::move(next);
  } else {
    MUSTER_TRY_STATUS(invite(run, next, together, outbox));
  }
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
  if (!run.asynchronous()) {
    MUSTER_TRY_STATUS(
        parts_.updates.prepare_round(run.row.job, run.round.round, run.round.attempt));
  }
  RoundRow row = round_row(run, next);
  std::vector<ParticipantRow> participants;
  std::map<DeviceId, OpenTask> tasks = run.tasks;
  for (const DeviceId& device : action.devices) {
    MUSTER_TRY(const std::string task, random_hex(16));
    tasks[device] = {task, row.round, row.attempt, row.base};
    participants.push_back(
        {row.job, row.round, row.attempt, device, task, parts_.clock.unix_ms(), 0, 0});
  }
  MUSTER_TRY_STATUS(parts_.store.save_selection(
      row, participants,
      event("devices_selected", &run, {}, Json{{"devices", action.devices}, {"seed", row.seed}})));
  run.round = std::move(row);
  run.machine = next;
  run.tasks = std::move(tasks);
  parts_.log->info("job {} round {}: {} devices invited", run.row.job, run.round.round,
                   action.devices.size());

  give_tasks(run, outbox);
  return {};
}

void Coordinator::give_tasks(JobRun& run, Outbox& outbox) {
  for (const auto& [device, task] : run.tasks) {
    if (run.machine->verdict(device, now()) != UpdateVerdict::kAccept) continue;
    if (auto waiting = take_out(device))
      give(*std::move(waiting), training_task(run, device, task, now()), outbox);
  }
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
  RoundAggregation work{run.aggregation, run.round.base, run.row.rule_state, {}};
  for (const UpdateRow& update : accepted) {
    if (std::ranges::binary_search(action.devices, update.device)) work.updates.push_back(update);
  }
  RoundRow row = round_row(run, next);
  MUSTER_TRY_STATUS(parts_.store.save_round(row));
  run.round = std::move(row);
  run.machine = next;
  compute_->post([this, work = std::move(work), wanted = action.devices.size(), job = run.row.job,
                  round = run.round.round,
                  attempt = run.round.attempt](Workers& workers, std::stop_token stop) {
    const auto aggregated = [&]() -> Result<AggregatedRound> {
      if (work.updates.size() != wanted) {
        return Error{ErrorCode::kDataLoss,
                     fmt::format("the store has {} of the {} accepted updates", work.updates.size(),
                                 wanted)};
      }
      MUSTER_TRY(const auto global, held_.get(work.global));
      return aggregate_round(parts_.updates, parts_.states, *global, work, workers, stop);
    };
    aggregation_done(job, round, attempt, aggregated());
  });
  return {};
}

void Coordinator::aggregation_done(const std::string& job, std::int64_t round, std::int64_t attempt,
                                   Result<AggregatedRound> result) {
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
  const Result<AggregatedRound> result = *run.aggregated;
  if (result) return handle(run, AggregateStored{result->state}, outbox);
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

void Coordinator::let_go_of_round(const JobRun& run) {
  parts_.updates.remove_round(run.row.job, run.round.round, run.round.attempt);
  std::vector<Digest> under_way;
  for (const auto& [id, other] : runs_) {
    if (other->machine) under_way.push_back(other->round.base);
  }
  held_.keep_only(under_way);
}

Status Coordinator::commit(JobRun& run, const RoundMachine& next, const CommitRound& action,
                           Outbox& outbox) {
  // What has come of the last round's evaluation is written before this one's begins.
  MUSTER_TRY_STATUS(settle_evaluation(run, /*now_or_never=*/true));
  MUSTER_TRY(const std::vector<UpdateRow> updates,
             parts_.store.list_accepted_updates(run.row.job, run.round.round, run.round.attempt));
  MUSTER_TRY(const std::vector<EvaluationRow> asked, evaluations_to_ask(run, next.reported()));
  const AggregatedRound& aggregated = run.aggregated->value();
  RoundRow row = round_row(run, next);
  row.state = action.state;
  row.rule_state = aggregated.rule_state;
  row.ended_at_ms = parts_.clock.unix_ms();
  row.metrics = training_metrics(updates, run.asynchronous());
  row.metrics.update(report_counts(aggregated.report));
  Json details{{"state", action.state.hex()}, {"metrics", row.metrics}};
  if (row.rule_state) details["rule_state"] = row.rule_state->hex();
  if (!aggregated.report.empty()) details["report"] = aggregated.report;
  MUSTER_TRY_STATUS(parts_.store.commit_round(
      row, JobStatus::kRunning, {}, event("round_committed", &run, {}, std::move(details)), asked));
  run.round = std::move(row);
  run.machine.reset();
  run.aggregated.reset();
  run.row.global_state = action.state;
  run.row.rule_state = run.round.rule_state;
  run.row.rounds_committed = run.round.round;
  let_go_of_round(run);
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
  let_go_of_round(run);
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
