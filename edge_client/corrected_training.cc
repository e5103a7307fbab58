#include "edge_client/corrected_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/aggregate/encoding/encode.h"
#include "core/aggregate/rule_state.h"

namespace muster {
namespace {

constexpr const char* kTopK = "top_k";

const StateDict* pointer(const std::optional<StateDict>& state) {
  return state ? &*state : nullptr;
}

Error cannot(std::string what) {
  return {ErrorCode::kFailedPrecondition, std::move(what), "cannot_train"};
}

}  // namespace

Status check_trainer(const protocol::Task& task, const LocalTrainer& trainer) {
  if (task.correction.method == DriftCorrection::kNone || trainer.takes_gradient_offset()) {
    return {};
  }
  return cannot(fmt::format("{} adds an offset to the gradient, which this trainer does not take",
                            name_of(task.correction.method)));
}

Result<StateDict> control_of(const StateDict& rule_state, const LayoutPtr& layout) {
  MUSTER_TRY(const LayoutPtr wanted, rule_state_layout(*layout, {"c"}));
  MUSTER_TRY_STATUS(check_same_layout(*wanted, rule_state.layout()));
  MUSTER_TRY_STATUS(check_finite(rule_state.layout(), rule_state.values()));
  StateDict control(layout);
  const auto values = slot_of(rule_state, 0, *layout);
  std::copy(values.begin(), values.end(), control.values().begin());
  return control;
}

CorrectedTraining CorrectedTraining::prepare(const protocol::Task& task, const StateDict& global,
                                             std::optional<StateDict> control,
                                             const KeptStates& kept,
                                             const std::function<void(const std::string&)>& log) {
  CorrectedTraining training(task, global);
  const DriftCorrection method = task.correction.method;
  const LayoutPtr& layout = global.layout_ptr();
  if (training.corrects()) {
    training.control_ = std::move(control);
    training.kept_ = kept.read(task.fit.job, KeptKind::kCorrection, name_of(method), layout, log);
    training.offset_ =
        gradient_offset(method, layout, pointer(training.control_), pointer(training.kept_));
    if (const auto finite = check_finite(*layout, training.offset_->values()); !finite) {
      log(fmt::format("what {} kept is not used: the offset is not finite: {}", name_of(method),
                      finite.error().message));
      training.kept_.reset();
      training.offset_ = gradient_offset(method, layout, pointer(training.control_), nullptr);
    }
  }
  if (task.encoding.format == UpdateEncoding::Format::kTopK) {
    training.residual_ = kept.read(task.fit.job, KeptKind::kResidual, kTopK, layout, log);
  }
  return training;
}

FitTask CorrectedTraining::fit_task() const {
  FitTask fit = task_->fit;
  fit.gradient_offset = pointer(offset_);
  fit.report_initial_loss = task_->initial_loss;
  if (task_->correction.method == DriftCorrection::kFedDyn) fit.local.mu = task_->correction.alpha;
  return fit;
}

Status CorrectedTraining::check_result(const FitResult& fitted) const {
  if (task_->initial_loss && !fitted.metrics.contains(std::string(protocol::kInitialLoss))) {
    return cannot(
        fmt::format("the task wants the metric \"{}\", which this trainer does not report",
                    protocol::kInitialLoss));
  }
  if (corrects() && fitted.steps < 1) {
    return cannot(fmt::format("{} wants at least one step, {} were done",
                              name_of(task_->correction.method), fitted.steps));
  }
  return {};
}

Result<CorrectedTraining::Ready> CorrectedTraining::finish(const FitResult& fitted) && {
  MUSTER_TRY_STATUS(check_result(fitted));
  offset_.reset();
  MUSTER_TRY(EncodedUpdate update, encode_update(task_->encoding, *global_, fitted.state,
                                                 pointer(residual_), task_->fit.seed));
  residual_.reset();
  Ready ready{.body = std::move(update.body), .kept = {}};
  if (corrects()) {
    const DriftCorrection method = task_->correction.method;
    StateDict next = keep(method,
                          {.global = global_,
                           .sent = &update.sent,
                           .steps = fitted.steps,
                           .lr = task_->fit.local.optimizer.lr,
                           .alpha = task_->correction.alpha},
                          pointer(control_), pointer(kept_));
    if (Status finite = check_finite(next.layout(), next.values()); !finite) {
      return with_context(std::move(finite).error(),
                          fmt::format("what {} keeps on the device", name_of(method)));
    }
    ready.kept.push_back({KeptKind::kCorrection, std::string(name_of(method)), std::move(next)});
  }
  if (update.residual) {
    ready.kept.push_back({KeptKind::kResidual, kTopK, *std::move(update.residual)});
  }
  return ready;
}

}  // namespace muster
