#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

#include "core/aggregate/aggregator.h"
#include "core/aggregate/double_double.h"
#include "core/aggregate/update_check.h"
#include "core/base/bytes.h"

namespace muster {
namespace {

// A float32 has 24 significant bits, so its product with a weight of up to 29 bits is exact in a
// double. Larger weights are taken in pieces of 29 bits.
constexpr int kPieceBits = 29;
constexpr std::int64_t kPieceMask = (std::int64_t{1} << kPieceBits) - 1;

void add_scaled(std::span<const float> values, double weight, std::vector<double>& high_sums,
                std::vector<double>& low_sums) {
  const float* __restrict value = values.data();
  double* __restrict high = high_sums.data();
  double* __restrict low = low_sums.data();
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) {
    DoubleDouble::add(high[i], low[i], static_cast<double>(value[i]) * weight);
  }
}

class WeightedMean final : public Aggregator {
 public:
  explicit WeightedMean(LayoutPtr layout)
      : layout_(std::move(layout)),
        high_(static_cast<std::size_t>(layout_->num_elements()), -0.0),
        low_(static_cast<std::size_t>(layout_->num_elements()), -0.0) {}

  Status validate(const Contribution& contribution) const override {
    if (finished_) return finished_error();
    if (contribution.examples < 0) {
      return bad_examples(contribution, "is negative; a weight is 0 or more");
    }
    std::int64_t total = 0;
    if (__builtin_add_overflow(total_examples_, contribution.examples, &total)) {
      return bad_examples(
          contribution, fmt::format("and the {} before it exceed a 64-bit count", total_examples_));
    }
    MUSTER_TRY_STATUS(check_values(*layout_, contribution));
    return {};
  }

  Status accumulate(const Contribution& contribution) override {
    MUSTER_TRY_STATUS(validate(contribution));
    std::int64_t piece_unit = 1;
    for (std::int64_t rest = contribution.examples; rest != 0; rest >>= kPieceBits) {
      const std::int64_t piece = rest & kPieceMask;
      const double weight = static_cast<double>(piece) * static_cast<double>(piece_unit);
      if (piece != 0) add_scaled(contribution.values, weight, high_, low_);
      piece_unit <<= kPieceBits;
    }
    total_examples_ += contribution.examples;
    return {};
  }

  Result<StateDict> finish() override {
    if (finished_) return finished_error();
    if (total_examples_ == 0) {
      return Error{ErrorCode::kFailedPrecondition,
                   "weighted mean: no contributor with at least one example, so there is nothing "
                   "to average",
                   "no_contributors"};
    }
    finished_ = true;
    StateDict mean(layout_);
    const std::span<float> values = mean.values();
    const SplitInteger divisor(total_examples_);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = divide_to_float({high_[i], low_[i]}, divisor);
    }
    high_ = {};
    low_ = {};
    if (auto status = check_finite(*layout_, values); !status) {
      Error error = with_context(std::move(status).error(), "weighted mean");
      error.code = ErrorCode::kFailedPrecondition;
      return error;
    }
    return mean;
  }

 private:
  static Error finished_error() {
    return {ErrorCode::kFailedPrecondition,
            "weighted mean: finished already; one object serves one round", "finished"};
  }

  static Error bad_examples(const Contribution& contribution, std::string_view what) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("contribution of {}: examples {} {}", printable(contribution.contributor),
                        contribution.examples, what),
            "bad_examples"};
  }

  LayoutPtr layout_;
  // Structure of arrays, so that the loop over a contribution runs in vector registers.
  std::vector<double> high_;
  std::vector<double> low_;
  std::int64_t total_examples_ = 0;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<Aggregator> make_weighted_mean(LayoutPtr layout) {
  return std::make_unique<WeightedMean>(std::move(layout));
}

}  // namespace muster
