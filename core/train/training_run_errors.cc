// What a run says when a number is no longer finite.
#include <cmath>
#include <string>

#include "core/train/training_run.h"

namespace muster {

Error TrainingRun::non_finite(const std::string& what) const {
  return {ErrorCode::kFailedPrecondition, "training: " + what, "non_finite"};
}

Error TrainingRun::blew_up(double loss) const {
  std::string message = "step " + std::to_string(steps_ + 1) + " of " +
                        std::to_string(total_steps_) + ": the loss is " + std::to_string(loss);
  if (Status finite = check_finite(w_.layout(), w_.values()); !finite) {
    message += "; " + finite.error().message;
  } else if (find_non_finite(batch_.features()) >= 0) {
    message += "; the local data has a value that is not finite";
  } else if (const std::string_view node = run_.first_non_finite(); !node.empty()) {
    message += "; the first node that is not finite is " + std::string(node);
  }
  return non_finite(message);
}

// Looks where it began: in the gradient, in order of the backward pass; else in the optimiser.
Error TrainingRun::gradient_blew_up() const {
  const std::string where =
      "step " + std::to_string(steps_ + 1) + " of " + std::to_string(total_steps_) + ": ";
  const std::vector<GraphNode>& nodes = graph_->nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    for (const ParameterSpec& parameter : node->op->plan().parameters) {
      const std::string name = parameter_name(*node, parameter);
      if (!parameter.trained) continue;
      const std::span<const float> values = gradient_.tensor(name);
      if (const std::int64_t at = find_non_finite(values); at >= 0) {
        return non_finite(where + "the gradient of " + name + " is " +
                          std::to_string(values[static_cast<std::size_t>(at)]) + " at element " +
                          std::to_string(at));
      }
    }
  }
  if (Status finite = check_finite(w_.layout(), w_.values()); !finite) {
    return non_finite(where + "the step leaves " + finite.error().message);
  }
  for (std::size_t i = 0; i < optimizer_state_.moments.size(); ++i) {
    const StateDict& moment = optimizer_state_.moments[i];
    if (Status finite = check_finite(moment.layout(), moment.values()); !finite) {
      return non_finite(where + "the optimizer's " + std::string(optimizer_->moments()[i].name) +
                        " overflows: " + finite.error().message);
    }
  }
  return non_finite(where + "the gradient's norm is not finite");
}

}  // namespace muster
