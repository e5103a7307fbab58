#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "core/aggregate/linear/exact_mean.h"

namespace muster {

// One array of a sum: a term's values, or those of the base.
struct Source {
  const UpdateValues* values = nullptr;  // null: `plain`
  const float* plain = nullptr;
  double weight = 0;  // not 0
  std::size_t term = 0;

  const float* read(std::int64_t begin, std::int64_t count, float* scratch) const {
    return values != nullptr ? values->read(begin, count, scratch) : plain + begin;
  }
};

// All that a mean has to read, in order: its terms but those of weight 0, then its base. Views of
// what the mean refers to. Any thread may read and look.
class Sources {
 public:
  explicit Sources(std::span<const WeightedValues> terms);
  explicit Sources(const MeanOf& mean);

  const std::vector<Source>& all() const { return all_; }
  void release(std::int64_t begin, std::int64_t count) const;

  // Whether a term has a value in this block that is NaN or infinite; it is remembered.
  bool look_for_non_finite(std::int64_t begin, std::int64_t count);
  // Of the blocks that were looked at, the first with such a value; in it, the first term. So it
  // does not depend on the order of looking.
  std::optional<NonFinite> non_finite() const;

 private:
  std::vector<Source> all_;
  mutable std::mutex mutex_;
  std::int64_t block_ = -1;  // guarded by mutex_, as is the next
  std::size_t term_ = 0;
};

// body(begin, end, worker) for parts of [0, size) of so many blocks that what all sources have in
// memory stays small. Without workers in the caller.
template <typename Body>
void for_parts(Workers* workers, std::int64_t size, std::int64_t grain, const Body& body) {
  if (workers != nullptr) {
    workers->for_each(size, grain, body);
    return;
  }
  for (std::int64_t at = 0; at < size; at += grain) {
    body(at, at + grain < size ? at + grain : size, 0);
  }
}
std::int64_t part_size(std::size_t num_sources);

}  // namespace muster
