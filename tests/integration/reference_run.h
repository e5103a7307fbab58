#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/aggregate/aggregator.h"
#include "core/aggregate/encoding/decode.h"
#include "core/aggregate/encoding/encode.h"
#include "core/aggregate/rule_state.h"
#include "core/graph/model.h"
#include "core/strategy/job.h"
#include "core/tensor/safetensors.h"
#include "core/train/drift_correction.h"
#include "server/aggregation.h"
#include "server/job_run.h"
#include "tests/support/federation.h"

namespace muster::testing {

// A federated job run in this process, straight through the trainers, the encoding and
// make_aggregator: what a run over the network has to equal bit for bit. Devices keep their half of
// SCAFFOLD, FedDyn and top_k from round to round, as real ones do.
class ReferenceRun {
 public:
  // Device name to the data spec of its trainer.
  using Devices = std::map<std::string, std::string>;

  ReferenceRun(const Json& job, const Devices& devices)
      : job_(take(job_from_json(job))),
        model_(take(resolve_model(job_.model))),
        aggregation_(aggregation_of(job_)) {
    for (const auto& [name, spec] : devices) devices_[name].trainer = graph_trainer(spec);
    states_.push_back(take(initial_state(job_)));
  }

  const StateLayout& layout() const { return states_[0].layout(); }
  const JobDescription& job() const { return job_; }
  // After round `round`; 0 is the initial state.
  std::string digest(std::size_t round) const {
    return sha256(write_state(states_.at(round))).hex();
  }

  // One device's part in a round, trained from the state before round `began`.
  struct Part {
    std::string device;
    std::int64_t began = 0;
  };
  // The next round of these parts.
  void round(const std::vector<Part>& parts) {
    const auto number = static_cast<std::int64_t>(states_.size());
    const StateDict& global = states_.back();
    const StateDict* rule_state = rule_state_ ? &*rule_state_ : nullptr;
    auto aggregator =
        take(make_aggregator(aggregation_.rule, aggregation_.base(global, rule_state)));
    for (const Part& part : parts) {
      Contribution contribution = train(part.device, part.began);
      contribution.staleness = number - part.began;
      take(aggregator->accumulate(std::move(contribution)));
    }
    Outcome outcome = take(aggregator->finish());
    states_.push_back(std::move(outcome.global));
    rule_state_ = std::move(outcome.rule_state);
  }
  // `count` rounds of all devices, in step.
  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      std::vector<Part> parts;
      for (const auto& [name, device] : devices_) {
        parts.push_back({name, static_cast<std::int64_t>(states_.size())});
      }
      round(parts);
    }
  }

 private:
  struct Device {
    std::unique_ptr<LocalTrainer> trainer;
    std::optional<StateDict> correction;
    std::optional<StateDict> residual;
  };

  static const StateDict* pointer(const std::optional<StateDict>& state) {
    return state ? &*state : nullptr;
  }

  DriftCorrection correction() const {
    if (std::holds_alternative<Scaffold>(aggregation_.rule)) return DriftCorrection::kScaffold;
    if (std::holds_alternative<FedDyn>(aggregation_.rule)) return DriftCorrection::kFedDyn;
    return DriftCorrection::kNone;
  }

  std::optional<StateDict> control() const {
    if (correction() != DriftCorrection::kScaffold || !rule_state_) return std::nullopt;
    StateDict control(states_[0].layout_ptr());
    const auto values = slot_of(*rule_state_, 0, layout());
    std::copy(values.begin(), values.end(), control.values().begin());
    return control;
  }

  Contribution train(const std::string& name, std::int64_t began) {
    Device& device = devices_.at(name);
    const StateDict& global = states_.at(static_cast<std::size_t>(began - 1));
    const LayoutPtr& layout = global.layout_ptr();
    const std::optional<StateDict> server = control();
    const StateDict offset =
        gradient_offset(correction(), layout, pointer(server), pointer(device.correction));
    FitTask task{.job = "reference", .round = began, .model = model_, .local = job_.local};
    task.seed = training_seed(job_.seed, began, name);
    if (correction() != DriftCorrection::kNone) task.gradient_offset = &offset;
    task.report_initial_loss = std::holds_alternative<QFedAvg>(aggregation_.rule);
    const FitResult fitted = take(device.trainer->fit(global, task, {}, {}));
    EncodedUpdate encoded = take(
        encode_update(job_.encoding, global, fitted.state, pointer(device.residual), task.seed));
    if (correction() != DriftCorrection::kNone) {
      const auto* dyn = std::get_if<FedDyn>(&aggregation_.rule);
      device.correction = keep(correction(),
                               {.global = &global,
                                .sent = &encoded.sent,
                                .steps = fitted.steps,
                                .lr = job_.local.optimizer.lr,
                                .alpha = dyn != nullptr ? dyn->alpha : 0},
                               pointer(server), pointer(device.correction));
    }
    device.residual = std::move(encoded.residual);
    Contribution contribution{.contributor = name, .values = decoded(encoded.body, layout)};
    contribution.examples = fitted.examples;
    contribution.steps = fitted.steps;
    if (const auto loss = fitted.metrics.find("initial_loss"); loss != fitted.metrics.end()) {
      contribution.initial_loss = loss->second;
    }
    return contribution;
  }

  ValuesPtr decoded(ByteView body, const LayoutPtr& layout) {
    const std::filesystem::path path =
        folder_.path() / (std::to_string(++bodies_) + ".safetensors");
    std::ofstream(path, std::ios::binary) << as_text(body);
    return take(open_update(take(MappedFile::open(path)), job_.encoding, layout, folder_.path()));
  }

  TemporaryFolder folder_;
  int bodies_ = 0;
  JobDescription job_;
  Json model_;
  JobAggregation aggregation_;
  std::map<std::string, Device> devices_;
  std::vector<StateDict> states_;
  std::optional<StateDict> rule_state_;
};

// Holds back the training of rounds until it lets them through; shared by trainers and test.
class Gate {
 public:
  // From now on, fits of rounds up to `round` go through.
  void let_through(std::int64_t round) {
    {
      const std::lock_guard lock(mutex_);
      open_to_ = round;
    }
    changed_.notify_all();
  }
  bool wait(std::int64_t round, std::stop_token stop) {
    std::unique_lock lock(mutex_);
    return changed_.wait(lock, stop, [&] { return round <= open_to_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::int64_t open_to_ = 0;
};

// A trainer that waits at a gate before it trains, and may spoil what it gives.
class GatedTrainer : public LocalTrainer {
 public:
  using Spoil = std::function<void(FitResult&)>;
  GatedTrainer(std::unique_ptr<LocalTrainer> trainer, std::shared_ptr<Gate> gate, Spoil spoil = {})
      : trainer_(std::move(trainer)), gate_(std::move(gate)), spoil_(std::move(spoil)) {}

  std::int64_t num_examples() const override { return trainer_->num_examples(); }
  bool takes_gradient_offset() const override { return trainer_->takes_gradient_offset(); }
  Result<FitResult> fit(const StateDict& global, const FitTask& task, std::stop_token stop,
                        const std::function<void(const FitProgress&)>& progress) override {
    if (gate_ && !gate_->wait(task.round, stop)) return Error{ErrorCode::kCancelled, "stopped"};
    FitTask unhurried = task;
    unhurried.budget.reset();  // the time at the gate is the test's
    MUSTER_TRY(FitResult result, trainer_->fit(global, unhurried, stop, progress));
    if (spoil_) spoil_(result);
    return result;
  }
  Result<EvaluateResult> evaluate(const StateDict& global, const FitTask& task,
                                  std::stop_token stop) override {
    return trainer_->evaluate(global, task, stop);
  }

 private:
  std::unique_ptr<LocalTrainer> trainer_;
  std::shared_ptr<Gate> gate_;
  Spoil spoil_;
};

}  // namespace muster::testing
