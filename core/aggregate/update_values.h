#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/tensor/state.h"

namespace muster {

// What the values of an update are.
enum class UpdateContent {
  kState,  // a model state
  kDelta,  // a model state minus the global state that it was trained from
};

// The values of one update wherever they lie and however they are encoded, read as float32 in
// blocks of elements, in any order and again and again.
//
// Immutable; shared by whoever aggregates. Safe to read from any thread.
class UpdateValues {
 public:
  virtual ~UpdateValues() = default;

  virtual const StateLayout& layout() const = 0;
  // How many values there are: layout().num_elements() in a sound update.
  virtual std::int64_t size() const = 0;

  // Elements [begin, begin + count) of the layout: where they lie when they lie as float32, else
  // decoded into `scratch`, which has room for `count`.
  virtual const float* read(std::int64_t begin, std::int64_t count, float* scratch) const = 0;

  // These elements are not needed soon: values in a mapped file give their pages back.
  virtual void release(std::int64_t begin, std::int64_t count) const;
};

using ValuesPtr = std::shared_ptr<const UpdateValues>;

// The values of a state that is given away.
ValuesPtr values_of(StateDict state);
// A view; layout and values stay with the caller, and where they are, until the last use.
ValuesPtr view_of(const StateLayout& layout, std::span<const float> values);
ValuesPtr view_of(const StateDict& state);

}  // namespace muster
