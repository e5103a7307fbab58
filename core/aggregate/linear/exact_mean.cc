#include "core/aggregate/linear/exact_mean.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>

#include "core/aggregate/blocks.h"
#include "core/aggregate/linear/exact_elements.h"
#include "core/aggregate/linear/mean_sources.h"
#include "core/aggregate/linear/mean_weights.h"
#include "core/aggregate/linear/partial_sums.h"
#include "core/tensor/kernels/kernels.h"

namespace muster {
namespace {

// Arrays that are combined at once.
struct Group {
  std::size_t first = 0;
  int count = 0;

  std::size_t size() const { return static_cast<std::size_t>(count); }
};

// As few groups as it takes, of nearly equal size.
void add_groups(std::vector<Group>& groups, std::size_t first, std::size_t count) {
  constexpr auto kMost = static_cast<std::size_t>(kernels::kCombined);
  std::size_t left = (count + kMost - 1) / kMost;
  while (count > 0) {
    const std::size_t here = (count + left - 1) / left;
    groups.push_back({first, static_cast<int>(here)});
    first += here;
    count -= here;
    --left;
  }
}

// Groups that are read side by side. With more of them, results of a part are kept while one such
// set of groups after another is added to them, so that no more files than that have pages in
// memory.
constexpr std::size_t kSideBySide = 4;
constexpr std::int64_t kMostKept = 64 * kBlock;

// What one worker works in.
struct Scratch {
  struct Arrays {
    std::array<const float*, kernels::kCombined> at{};
    alignas(64) std::array<std::array<float, kBlock>, kernels::kCombined> decoded;
  };
  template <typename T>
  using Results = std::array<T, kMostKept + kernels::kCombineUnit>;

  std::array<Arrays, 2> arrays;  // of this step and of the next
  alignas(64) Results<double> sums;
  alignas(64) Results<double> far;
  alignas(64) Results<std::int32_t> most;
  alignas(64) Results<std::int32_t> least;
  alignas(64) Results<std::int32_t> open;
  alignas(64) std::array<float, kBlock> zeros{};
  std::vector<std::int32_t> places;
  ExactElements exact;
};

// One mean without partial sums. Arrays are combined in groups: a step is one block of one group.
class ExactMean {
 public:
  ExactMean(const MeanOf& mean, std::span<float> out, int num_workers, const kernels::Table& table)
      : mean_(mean), out_(out), sources_(mean), table_(table) {
    for (const Source& source : sources_.all()) {
      if (source.values != nullptr) arrays_.push_back(source);
    }
    const std::size_t num_terms = arrays_.size();
    for (const Source& source : sources_.all()) {
      if (source.values == nullptr) arrays_.push_back(source);
    }
    if (mean.centre != nullptr && !take_centre_once()) {
      centre_ = mean.centre->values().data();
      weights_ = mean_weights(weights_of(arrays_), num_terms, mean.divisor);
      add_groups(groups_, 0, num_terms);
      centred_groups_ = groups_.size();
      add_groups(groups_, num_terms, arrays_.size() - num_terms);
    } else {
      weights_ = mean_weights(weights_of(arrays_), 0, mean.divisor);
      add_groups(groups_, 0, arrays_.size());
    }
    for (int i = 0; i < num_workers; ++i) scratch_.push_back(std::make_unique<Scratch>());
  }

  std::optional<NonFinite> run(Workers* workers) {
    for_parts(workers, std::ssize(out_), part_size(),
              [this](std::int64_t begin, std::int64_t end, int worker) {
                Scratch& scratch = *scratch_[static_cast<std::size_t>(worker)];
                if (!weights_.usable) return decide_all(begin, end, scratch);
                for (std::size_t first = 0; first < groups_.size(); first += kSideBySide) {
                  walk({begin, end, first, std::min(kSideBySide, groups_.size() - first)}, scratch);
                }
              });
    return sources_.non_finite();
  }

 private:
  static std::vector<double> weights_of(const std::vector<Source>& arrays) {
    std::vector<double> weights;
    for (const Source& array : arrays) weights.push_back(array.weight);
    return weights;
  }

  // Takes the centre once from the whole sum instead of from each value, where sums are exact
  // anyway: it costs an array instead of half the speed.
  bool take_centre_once() {
    constexpr int kLeastSpan = 6;  // of the exponents of an element's values: most have less
    double taken = 0;              // exact when the sums are
    for (const Source& array : arrays_) {
      if (array.values != nullptr) taken -= array.weight;
    }
    std::vector<Source> arrays = arrays_;
    if (taken != 0) arrays.push_back({.plain = mean_.centre->values().data(), .weight = taken});
    if (mean_weights(weights_of(arrays), 0, mean_.divisor).exact_span < kLeastSpan) return false;
    arrays_ = std::move(arrays);
    return true;
  }

  // At most kMostKept, and enough of them for all workers.
  std::int64_t part_size() const {
    if (groups_.size() <= kSideBySide) return muster::part_size(arrays_.size());
    const std::int64_t parts = 4 * std::ssize(scratch_);
    const std::int64_t blocks = (std::ssize(out_) / parts + kBlock - 1) / kBlock;
    return std::clamp(blocks * kBlock, kBlock, kMostKept);
  }

  // Some groups of a part.
  struct Walk {
    std::int64_t begin;
    std::int64_t end;
    std::size_t first_group;
    std::size_t num_groups;

    std::size_t num_steps() const {
      return num_groups * static_cast<std::size_t>((end - begin + kBlock - 1) / kBlock);
    }
  };

  // What a step is about.
  struct Step {
    std::size_t group;
    std::int64_t at;
    std::int64_t count;
    std::int64_t kept;  // place of the block's results
  };
  Step step_of(const Walk& walk, std::size_t step) const {
    const std::int64_t offset = static_cast<std::int64_t>(step / walk.num_groups) * kBlock;
    const std::int64_t at = walk.begin + offset;
    return {walk.first_group + step % walk.num_groups, at, std::min(kBlock, walk.end - at),
            walk.num_groups == groups_.size() ? 0 : offset};
  }

  void walk(const Walk& walk, Scratch& scratch) {
    const std::size_t steps = walk.num_steps();
    for (std::size_t step = 0; step <= steps; ++step) {
      // One step ahead, so that the arrays that are wanted next can be fetched.
      Scratch::Arrays& next = scratch.arrays[step % 2];
      const Scratch::Arrays& here = scratch.arrays[(step + 1) % 2];
      if (step < steps) read(step_of(walk, step), next);
      if (step > 0) combine(step_of(walk, step - 1), here, step < steps ? next : here, scratch);
    }
    const Group& last = groups_[walk.first_group + walk.num_groups - 1];
    for (std::size_t i = groups_[walk.first_group].first; i < last.first + last.size(); ++i) {
      const Source& source = arrays_[i];
      if (source.values != nullptr) source.values->release(walk.begin, walk.end - walk.begin);
    }
  }

  void read(const Step& step, Scratch::Arrays& arrays) const {
    const Group& group = groups_[step.group];
    for (std::size_t i = 0; i < group.size(); ++i) {
      arrays.at[i] = arrays_[group.first + i].read(step.at, step.count, arrays.decoded[i].data());
    }
    // What is fetched when the step before has more arrays.
    std::fill(arrays.at.begin() + group.count, arrays.at.end(), arrays.at[0]);
  }

  void combine(const Step& step, const Scratch::Arrays& here, const Scratch::Arrays& next,
               Scratch& scratch) {
    const auto [index, at, count, kept] = step;
    const float* centre = nullptr;
    if (centre_ != nullptr) centre = index < centred_groups_ ? centre_ + at : scratch.zeros.data();
    const kernels::Rounding rounding{.divisor = weights_.divisor,
                                     .power_of_two = weights_.power_of_two,
                                     .decides_ties = weights_.decides_ties,
                                     .exact_span = weights_.exact_span,
                                     .error = weights_.error,
                                     .low = out_.data() + at,
                                     .open = scratch.open.data()};
    const std::uint32_t found =
        table_.combine({.n = count,
                        .terms = groups_[index].count,
                        .x = here.at.data(),
                        .weights = weights_.weights.data() + groups_[index].first,
                        .next = next.at.data(),
                        .centre = centre,
                        .begin = index == 0,
                        .round = index + 1 == groups_.size() ? &rounding : nullptr,
                        .sums = scratch.sums.data() + kept,
                        .far = scratch.far.data() + kept,
                        .most = scratch.most.data() + kept,
                        .least = scratch.least.data() + kept});
    if (found != 0) decide_open(found, at, count, scratch);
  }

  void decide_open(std::uint32_t found, std::int64_t at, std::int64_t count, Scratch& scratch) {
    const bool non_finite = (found & kernels::kNonFiniteTerms) != 0;
    if (non_finite && sources_.look_for_non_finite(at, count)) return;
    scratch.places.clear();
    for (std::int32_t i = 0; i < count; ++i) {
      if (scratch.open[static_cast<std::size_t>(i)] != 0) scratch.places.push_back(i);
    }
    scratch.exact.decide(mean_, sources_, at, scratch.places, out_);
  }

  // For weights so far apart that doubles do not hold their sums.
  void decide_all(std::int64_t begin, std::int64_t end, Scratch& scratch) {
    for (std::int64_t at = begin; at < end; at += kBlock) {
      const std::int64_t count = std::min(kBlock, end - at);
      if (sources_.look_for_non_finite(at, count)) continue;
      scratch.places.resize(static_cast<std::size_t>(count));
      std::iota(scratch.places.begin(), scratch.places.end(), 0);
      scratch.exact.decide(mean_, sources_, at, scratch.places, out_);
    }
  }

  const MeanOf& mean_;
  const std::span<float> out_;
  Sources sources_;
  const kernels::Table& table_;
  std::vector<Source> arrays_;      // what is combined: terms, base, centre
  const float* centre_ = nullptr;   // taken from each value; null: from none
  std::size_t centred_groups_ = 0;  // those that it is taken from
  MeanWeights weights_;             // of arrays_
  std::vector<Group> groups_;
  std::vector<std::unique_ptr<Scratch>> scratch_;
};

// One array divided by its own weight.
std::optional<NonFinite> copy(const MeanOf& mean, std::span<float> out, Workers* workers) {
  Sources sources(mean);
  const Source& source = sources.all()[0];
  for_parts(workers, std::ssize(out), part_size(1), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t at = begin; at < end; at += kBlock) {
      const std::int64_t count = std::min(kBlock, end - at);
      const auto block = out.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
      const float* values = source.read(at, count, block.data());
      if (values != block.data()) std::memcpy(block.data(), values, block.size_bytes());
      if (find_non_finite(block) >= 0) sources.look_for_non_finite(at, count);
    }
    sources.release(begin, end - begin);
  });
  return sources.non_finite();
}

}  // namespace

std::optional<NonFinite> exact_mean(const MeanOf& mean, std::span<float> out, Workers* workers) {
  return exact_mean(mean, out, workers, kernels::best());
}

std::optional<NonFinite> exact_mean(const MeanOf& mean, std::span<float> out, Workers* workers,
                                    const kernels::Table& table) {
  if (mean.partial != nullptr) return mean_with_partial(mean, out, workers, table);
  const Sources sources(mean);
  if (sources.all().empty()) {
    std::fill(out.begin(), out.end(), 0.0F);
    return std::nullopt;
  }
  if (sources.all().size() == 1 && sources.all()[0].values != nullptr && mean.centre == nullptr &&
      sources.all()[0].weight == mean.divisor.high && mean.divisor.low == 0) {
    return copy(mean, out, workers);
  }
  return ExactMean(mean, out, workers == nullptr ? 1 : workers->count(), table).run(workers);
}

}  // namespace muster
