#include "core/aggregate/update_values.h"

#include <utility>

namespace muster {
namespace {

class OwnedState final : public UpdateValues {
 public:
  explicit OwnedState(StateDict state) : state_(std::move(state)) {}

  const StateLayout& layout() const override { return state_.layout(); }
  std::int64_t size() const override { return state_.layout().num_elements(); }
  const float* read(std::int64_t begin, std::int64_t /*count*/, float* /*scratch*/) const override {
    return state_.values().data() + begin;
  }

 private:
  StateDict state_;
};

class ViewOfValues final : public UpdateValues {
 public:
  ViewOfValues(const StateLayout& layout, std::span<const float> values)
      : layout_(layout), values_(values) {}

  const StateLayout& layout() const override { return layout_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(values_.size()); }
  const float* read(std::int64_t begin, std::int64_t /*count*/, float* /*scratch*/) const override {
    return values_.data() + begin;
  }

 private:
  const StateLayout& layout_;
  std::span<const float> values_;
};

}  // namespace

void UpdateValues::release(std::int64_t /*begin*/, std::int64_t /*count*/) const {}

ValuesPtr values_of(StateDict state) {
  return std::make_shared<OwnedState>(std::move(state));
}

ValuesPtr view_of(const StateLayout& layout, std::span<const float> values) {
  return std::make_shared<ViewOfValues>(layout, values);
}

ValuesPtr view_of(const StateDict& state) {
  return view_of(state.layout(), state.values());
}

}  // namespace muster
