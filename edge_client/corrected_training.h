#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/protocol/messages.h"
#include "core/tensor/state.h"
#include "edge_client/kept_states.h"

namespace muster {

// Whether a trainer can do what a task asks for beside training. Errors: kFailedPrecondition,
// naming the method.
Status check_trainer(const protocol::Task& task, const LocalTrainer& trainer);

// The server's control variate out of the rule state that `task.control` names, in the model's
// layout. Errors: kInvalidArgument when it is none of this model's or not finite.
Result<StateDict> control_of(const StateDict& rule_state, const LayoutPtr& layout);

// What stands before and after one training of a task: the correction of client drift that goes
// into its gradient, and what it gives to be sent and to be kept.
//
// Lives for one training, beside the global state, which must outlive it. Order: prepare, then
// `task` for the trainer, then `finish` once.
class CorrectedTraining {
 public:
  //   control  of control_of, for SCAFFOLD; none before there is one
  //   log      told what was kept and cannot be used
  static CorrectedTraining prepare(const protocol::Task& task, const StateDict& global,
                                   std::optional<StateDict> control, const KeptStates& kept,
                                   const std::function<void(const std::string&)>& log);

  // What the trainer is given; its offset belongs to this object.
  FitTask fit_task() const;

  struct Ready {
    Bytes body;
    std::vector<KeptState> kept;  // once the server has the update
  };
  // Encodes the trained state, which has the global state's layout and is finite.
  // Errors: kFailedPrecondition: a value does not fit the encoding (encode.h), what is to be kept
  // is not finite, or the metrics or steps lack what the task asks for.
  Result<Ready> finish(const FitResult& fitted) &&;

 private:
  CorrectedTraining(const protocol::Task& task, const StateDict& global)
      : task_(&task), global_(&global) {}
  Status check_result(const FitResult& fitted) const;
  bool corrects() const { return task_->correction.method != DriftCorrection::kNone; }

  const protocol::Task* task_;
  const StateDict* global_;
  std::optional<StateDict> control_;   // c
  std::optional<StateDict> kept_;      // c_i, or g
  std::optional<StateDict> offset_;    // of the gradient
  std::optional<StateDict> residual_;  // of top_k
};

}  // namespace muster
