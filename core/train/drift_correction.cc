#include "core/train/drift_correction.h"

#include <span>

namespace muster {
namespace {

// Element i of a state that may not be there yet.
double value_of(const StateDict* state, std::size_t i) {
  return state == nullptr ? 0 : static_cast<double>(state->values()[i]);
}

}  // namespace

std::string_view name_of(DriftCorrection method) {
  switch (method) {
    case DriftCorrection::kScaffold:
      return "SCAFFOLD";
    case DriftCorrection::kFedDyn:
      return "FedDyn";
    case DriftCorrection::kNone:
      break;
  }
  return "none";
}

StateDict gradient_offset(DriftCorrection method, const LayoutPtr& layout, const StateDict* server,
                          const StateDict* kept) {
  StateDict offset(layout);
  if (method == DriftCorrection::kNone) return offset;
  if (method == DriftCorrection::kFedDyn) server = nullptr;
  const std::span<float> out = offset.values();
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(value_of(server, i) - value_of(kept, i));
  }
  return offset;
}

StateDict keep(DriftCorrection method, const TrainedStep& trained, const StateDict* server,
               const StateDict* kept) {
  StateDict next(trained.global->layout_ptr());
  if (method == DriftCorrection::kNone) return next;
  const std::span<const float> x = trained.global->values();
  const std::span<const float> y = trained.sent->values();
  const std::span<float> out = next.values();
  const bool scaffold = method == DriftCorrection::kScaffold;
  const double moved = static_cast<double>(trained.steps) * trained.lr;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double back = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    const double step = scaffold ? back / moved - value_of(server, i) : trained.alpha * back;
    out[i] = static_cast<float>(value_of(kept, i) + step);
  }
  return next;
}

}  // namespace muster
