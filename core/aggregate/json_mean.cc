#include "core/aggregate/json_mean.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "core/aggregate/double_mean.h"
#include "core/aggregate/update_check.h"
#include "core/base/bytes.h"
#include "core/tensor/json_state.h"

namespace muster {
namespace {

// Numbers whose means are worked on at once: some 100 KiB a worker.
constexpr std::int64_t kNumbersAtOnce = 128;
using WordsOfBlock = std::array<float, kNumbersAtOnce * kNumberWords>;

// The rows [begin, begin + count) of one state.
std::span<const float> read_rows(const UpdateValues& values, std::int64_t begin, std::int64_t count,
                                 WordsOfBlock& scratch) {
  const float* words = values.read(begin * kNumberWords, count * kNumberWords, scratch.data());
  return {words, static_cast<std::size_t>(count * kNumberWords)};
}

class JsonMeanRule final : public KeepingRule {
 public:
  explicit JsonMeanRule(const AggregationBase& base) : layout_(base.global->layout_ptr()) {}

  Status check(const Contribution& contribution) const override {
    WordsOfBlock scratch;
    for (std::int64_t at = 0; at < num_numbers(); at += kNumbersAtOnce) {
      const std::int64_t count = std::min(kNumbersAtOnce, num_numbers() - at);
      auto status = check_numbers(read_rows(*contribution.values, at, count, scratch), at);
      if (status) continue;
      return with_context(std::move(status).error(),
                          fmt::format("contribution of {}", printable(contribution.contributor)));
    }
    contribution.values->release(0, layout_->num_elements());
    return {};
  }

  Result<Outcome> run(std::span<const Contribution> contributions,
                      Workers& workers) const override {
    std::vector<Contribution> weighty;
    std::copy_if(contributions.begin(), contributions.end(), std::back_inserter(weighty),
                 [](const Contribution& contribution) { return contribution.examples > 0; });
    if (weighty.empty()) {
      return Error{ErrorCode::kFailedPrecondition,
                   fmt::format("JsonMean: no contributor among {} with at least one example, so "
                               "there is nothing to average",
                               contributions.size()),
                   "no_contributors"};
    }
    Outcome outcome{.global = StateDict(layout_)};
    std::atomic<bool> sound = true;
    workers.for_each(num_numbers(), kNumbersAtOnce, [&](std::int64_t begin, std::int64_t end, int) {
      float* to = outcome.global.values().data() + begin * kNumberWords;
      if (!mean_of_block(weighty, begin, end - begin, to)) sound = false;
    });
    if (!sound) return changed(weighty);
    return outcome;
  }

 private:
  std::int64_t num_numbers() const { return layout_->num_elements() / kNumberWords; }

  // False when a row is no finite double.
  static bool mean_of_block(const std::vector<Contribution>& contributions, std::int64_t begin,
                            std::int64_t count, float* to) {
    std::array<DoubleMean, kNumbersAtOnce> means;
    WordsOfBlock scratch;
    for (const Contribution& contribution : contributions) {
      const auto rows = read_rows(*contribution.values, begin, count, scratch);
      if (!check_numbers(rows)) return false;
      for (std::int64_t i = 0; i < count; ++i) {
        means[static_cast<std::size_t>(i)].add(*number_of(rows.data() + i * kNumberWords),
                                               contribution.examples);
      }
      contribution.values->release(begin * kNumberWords, count * kNumberWords);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      for (const float word : words_of(means[static_cast<std::size_t>(i)].mean())) *to++ = word;
    }
    return true;
  }

  // Values that were sound when they came and are not any more; always an error.
  Error changed(const std::vector<Contribution>& contributions) const {
    for (const Contribution& contribution : contributions) {
      if (auto status = check_values(*layout_, contribution); !status) return status.error();
      if (auto status = check(contribution); !status) return status.error();
    }
    return {ErrorCode::kInvalidArgument,
            "JsonMean: a number was not finite when it was read, and is now", "non_finite"};
  }

  LayoutPtr layout_;
};

Error bad_base(const std::string& what) {
  return {ErrorCode::kInvalidArgument, "JsonMean: " + what, "bad_aggregation"};
}

}  // namespace

Result<std::unique_ptr<KeepingAggregator>> make_json_mean_aggregator(
    const AggregationSettings& settings, const AggregationBase& base) {
  if (!is_json_layout(base.global->layout())) {
    return bad_base("the global state is no JSON state, which has one tensor \"numbers\" [n, 3]");
  }
  if (base.content != UpdateContent::kState) {
    return bad_base("deltas found, states are wanted: the words of numbers are not subtracted");
  }
  return std::make_unique<KeepingAggregator>(settings, base, std::make_unique<JsonMeanRule>(base));
}

}  // namespace muster
