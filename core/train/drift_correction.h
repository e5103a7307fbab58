#pragma once

#include <cstdint>
#include <string_view>

#include "core/tensor/state.h"

namespace muster {

// The device's half of the methods that correct client drift with something that the device keeps
// between rounds. In training the gradient gains a constant, `gradient_offset` (FitTask); after it
// the device computes what to keep for its next round. Nothing but the trained state travels: the
// server derives its half from it.
enum class DriftCorrection {
  kNone,
  // SCAFFOLD, option II (Karimireddy et al. 2020, Algorithm 1): the device keeps its control
  // variate c_i, the server sends c. Offset c - c_i; then c_i <- c_i - c + (x - y) / (K lr).
  kScaffold,
  // FedDyn (Acar et al. 2021, Algorithm 1): the device keeps the gradient g of its last minimum.
  // Offset -g, beside a proximal term with mu = alpha; then g <- g - alpha (y - x).
  kFedDyn,
};

// "none", "SCAFFOLD", "FedDyn".
std::string_view name_of(DriftCorrection method);

// The offset of the next training. `server` is SCAFFOLD's c, null before the first round; `kept`
// is what `keep` gave the last time, null before the first. All have the model's layout.
StateDict gradient_offset(DriftCorrection method, const LayoutPtr& layout, const StateDict* server,
                          const StateDict* kept);

struct TrainedStep {
  const StateDict* global = nullptr;  // x, trained from
  const StateDict* sent = nullptr;    // y, as the server reads it
  std::int64_t steps = 0;             // K, over 0
  double lr = 0;                      // SCAFFOLD: the local learning rate, over 0
  double alpha = 0;                   // FedDyn
};
// What the device keeps once the server has taken the update. Computed in double, rounded once.
StateDict keep(DriftCorrection method, const TrainedStep& trained, const StateDict* server,
               const StateDict* kept);

}  // namespace muster
