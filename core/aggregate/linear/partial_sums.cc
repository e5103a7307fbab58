#include "core/aggregate/linear/partial_sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <vector>

#include "core/aggregate/blocks.h"
#include "core/aggregate/linear/exact_quotient.h"
#include "core/aggregate/linear/mean_sources.h"
#include "core/aggregate/linear/mean_weights.h"
#include "core/base/invariant.h"
#include "core/tensor/kernels/kernels.h"

namespace muster {
namespace {

// A weight as an exact sum of two with at most 29 and 24 significant bits, so that their products
// with a float32 are exact in double.
std::array<double, 2> pieces(double weight) {
  constexpr std::uint64_t kLow24 = (std::uint64_t{1} << 24) - 1;
  const double high = std::bit_cast<double>(std::bit_cast<std::uint64_t>(weight) & ~kLow24);
  return {high, weight - high};
}

void add_weighted(const kernels::Table& table, double weight, std::int64_t count,
                  const float* values, double* high, double* low) {
  for (const double piece : pieces(weight)) {
    if (piece != 0) table.add_products(count, piece, values, high, low);
  }
}

// A NaN or infinity among the terms stays one in the sums.
bool all_finite(const double* sums, std::int64_t count) {
  std::uint64_t most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    most = std::max(most, std::bit_cast<std::uint64_t>(sums[i]) << 1);
  }
  return most < std::uint64_t{0x7ff} << 53;
}

// Adds all sources' elements [begin, begin + count) to the double-doubles at high and low. False:
// a term is not finite.
bool add_sources(const kernels::Table& table, Sources& sources, const StateDict* centre,
                 std::int64_t begin, std::int64_t count, double* high, double* low) {
  std::array<float, kBlock> scratch;
  for (const Source& source : sources.all()) {
    const float* values = source.read(begin, count, scratch.data());
    add_weighted(table, source.weight, count, values, high, low);
    if (centre != nullptr && source.values != nullptr) {
      add_weighted(table, -source.weight, count, centre->values().data() + begin, high, low);
    }
  }
  return all_finite(high, count) || !sources.look_for_non_finite(begin, count);
}

// Quotients of double-doubles; the few that are close to a rounding boundary one by one.
void divide_block(const kernels::Table& table, std::int64_t count, const double* high,
                  const double* low, DoubleDouble divisor, float* out) {
  std::array<std::int32_t, kBlock + kernels::kCombineUnit> open;
  constexpr double kSlack = 0x1.0p-50;  // for the low parts that are left out and three roundings
  const std::uint32_t found =
      table.round_quotients(count, high, divisor.high, kSlack, out, open.data());
  if (found == 0) return;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    if (open[i] != 0 && std::isfinite(high[i]))
      out[i] = divide_to_float({high[i], low[i]}, divisor);
  }
}

template <typename Body>
void for_blocks(std::int64_t begin, std::int64_t end, const Body& body) {
  for (std::int64_t at = begin; at < end; at += kBlock) body(at, std::min(kBlock, end - at));
}

}  // namespace

std::optional<NonFinite> mean_with_partial(const MeanOf& mean, std::span<float> out,
                                           Workers* workers, const kernels::Table& table) {
  const PartialSums& partial = *mean.partial;
  if (partial.high.size() != out.size() || partial.low.size() != out.size()) {
    invariant_broken("partial sums of another model");
  }
  Sources sources(mean);
  for_parts(workers, std::ssize(out), part_size(sources.all().size()),
            [&](std::int64_t begin, std::int64_t end, int) {
              std::array<double, kBlock> high;
              std::array<double, kBlock> low;
              for_blocks(begin, end, [&](std::int64_t at, std::int64_t count) {
                std::copy_n(partial.high.data() + at, count, high.data());
                std::copy_n(partial.low.data() + at, count, low.data());
                add_sources(table, sources, mean.centre, at, count, high.data(), low.data());
                divide_block(table, count, high.data(), low.data(), mean.divisor, out.data() + at);
              });
              sources.release(begin, end - begin);
            });
  return sources.non_finite();
}

std::optional<NonFinite> add_to(PartialSums& sums, std::span<const WeightedValues> terms,
                                Workers* workers) {
  return add_to(sums, terms, workers, kernels::best());
}

std::optional<NonFinite> add_to(PartialSums& sums, std::span<const WeightedValues> terms,
                                Workers* workers, const kernels::Table& table) {
  Sources sources(terms);
  if (sources.all().empty()) return std::nullopt;
  if (sums.high.empty()) {
    const auto size = static_cast<std::size_t>(sources.all()[0].values->size());
    sums.high.assign(size, -0.0);
    sums.low.assign(size, -0.0);
  }
  for_parts(workers, std::ssize(sums.high), part_size(sources.all().size()),
            [&](std::int64_t begin, std::int64_t end, int) {
              for_blocks(begin, end, [&](std::int64_t at, std::int64_t count) {
                add_sources(table, sources, nullptr, at, count, sums.high.data() + at,
                            sums.low.data() + at);
              });
              sources.release(begin, end - begin);
            });
  return sources.non_finite();
}

void add_to(PartialSums& into, const PartialSums& from, Workers* workers) {
  if (from.high.empty()) return;
  if (into.high.empty()) {
    into = from;
    return;
  }
  if (into.high.size() != from.high.size()) invariant_broken("partial sums of another model");
  for_parts(
      workers, std::ssize(into.high), part_size(4), [&](std::int64_t begin, std::int64_t end, int) {
        kernels::best().add_pairs(end - begin, from.high.data() + begin, from.low.data() + begin,
                                  into.high.data() + begin, into.low.data() + begin);
      });
}

}  // namespace muster
