#include "core/aggregate/update_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/aggregate/distance.h"
#include "core/base/bytes.h"

namespace muster {
namespace {

std::string name_of(const Contribution& update) {
  return fmt::format("contribution of {}", printable(update.contributor));
}

Status check_examples(const Contribution& update, const UpdateLimits& limits) {
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
  return {};
}

// A value that is not finite, told with its tensor and its index there.
Error non_finite(const StateLayout& layout, const Contribution& update, std::int64_t at,
                 float value) {
  // The last tensor that begins at or before the place is the one around it: empty ones share its
  // beginning but come first.
  const auto after = std::upper_bound(
      layout.tensors().begin(), layout.tensors().end(), at,
      [](std::int64_t place, const TensorSpec& spec) { return place < spec.offset; });
  const TensorSpec& spec = *std::prev(after);
  return {ErrorCode::kInvalidArgument,
          fmt::format("{}: \"{}\" has the value {} at index {}, a finite one is wanted",
                      name_of(update), printable(spec.name), value, at - spec.offset),
          "non_finite"};
}

}  // namespace

Result<UpdateLimits> update_limits_from_json(const Json& json, const std::string& where) {
  constexpr std::int64_t kMostExamples = std::int64_t{1} << 53;
  JsonObject object(json, where);
  UpdateLimits limits;
  limits.max_examples = object.integer("max_examples", limits.max_examples, {1, kMostExamples});
  limits.max_change_norm = object.number("max_change_norm", limits.max_change_norm, {0.0, 1e30});
  MUSTER_TRY_STATUS(object.finish());
  return limits;
}

Json to_json(const UpdateLimits& limits) {
  return {{"max_examples", limits.max_examples}, {"max_change_norm", limits.max_change_norm}};
}

Status check_layout(const StateLayout& wanted, const Contribution& update) {
  const StateLayout& found = update.values->layout();
  if (!(wanted == found)) {
    auto status = check_same_layout(wanted, found);
    if (!status) return with_context(std::move(status).error(), name_of(update));
  }
  if (update.values->size() != wanted.num_elements()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: {} values, wanted {} as its layout says", name_of(update),
                             update.values->size(), wanted.num_elements()),
                 "shape_mismatch"};
  }
  return {};
}

Status check_values(const StateLayout& wanted, const Contribution& update) {
  constexpr std::int64_t kAtOnce = std::int64_t{1} << 16;  // floats: a quarter of a second cache
  std::vector<float> scratch(static_cast<std::size_t>(std::min(kAtOnce, wanted.num_elements())));
  for (std::int64_t begin = 0; begin < wanted.num_elements(); begin += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, wanted.num_elements() - begin);
    const float* values = update.values->read(begin, count, scratch.data());
    const std::int64_t at = find_non_finite({values, static_cast<std::size_t>(count)});
    if (at >= 0) return non_finite(wanted, update, begin + at, values[at]);
    update.values->release(begin, count);
  }
  // Pages between two parts belong to neither, and the system maps some around the one asked for.
  update.values->release(0, wanted.num_elements());
  return {};
}

Status check_update(const StateDict& global, UpdateContent content, const Contribution& update,
                    const UpdateLimits& limits) {
  MUSTER_TRY_STATUS(check_layout(global.layout(), update));
  MUSTER_TRY_STATUS(check_examples(update, limits));
  if (limits.max_change_norm == 0) return check_values(global.layout(), update);
  const double norm = change_norms({&update, 1}, content, global, nullptr).front();
  // Only a value that is not finite gives a norm that is none.
  if (!std::isfinite(norm)) MUSTER_TRY_STATUS(check_values(global.layout(), update));
  if (norm <= limits.max_change_norm) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{}: its change from the global state has the norm {}, wanted at most "
                           "{}",
                           name_of(update), norm, limits.max_change_norm),
               "norm_too_large"};
}

}  // namespace muster
