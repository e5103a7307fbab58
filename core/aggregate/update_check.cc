#include "core/aggregate/update_check.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/bytes.h"

namespace muster {
namespace {

std::string name_of(const Contribution& update) {
  return fmt::format("contribution of {}", printable(update.contributor));
}

Status check_layout(const StateLayout& wanted, const Contribution& update) {
  if (!(wanted == update.layout)) {
    auto status = check_same_layout(wanted, update.layout);
    if (!status) return with_context(std::move(status).error(), name_of(update));
  }
  if (update.values.size() != static_cast<std::size_t>(wanted.num_elements())) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: {} values, wanted {} as its layout says", name_of(update),
                             update.values.size(), wanted.num_elements()),
                 "shape_mismatch"};
  }
  return {};
}

Status check_all_finite(const StateLayout& wanted, const Contribution& update) {
  auto status = check_finite(wanted, update.values);
  if (!status) return with_context(std::move(status).error(), name_of(update));
  return {};
}

}  // namespace

Status check_values(const StateLayout& wanted, const Contribution& update) {
  MUSTER_TRY_STATUS(check_layout(wanted, update));
  return check_all_finite(wanted, update);
}

Status check_update(const StateLayout& wanted, const Contribution& update,
                    const UpdateLimits& limits) {
  MUSTER_TRY_STATUS(check_layout(wanted, update));
  if (update.examples == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: examples 0, wanted 1 to {}; a device without data declines",
                             name_of(update), limits.max_examples),
                 "zero_examples"};
  }
  if (update.examples < 0 || update.examples > limits.max_examples) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: examples {}, wanted 1 to {}", name_of(update), update.examples,
                             limits.max_examples),
                 "bad_examples"};
  }
  return check_all_finite(wanted, update);
}

}  // namespace muster
