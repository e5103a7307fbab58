#include "core/strategy/partition/exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/bytes.h"

namespace muster {

Exchange::Exchange(const Wiring& wiring, std::span<const Stage> stages, ObjectStore* store)
    : wiring_(&wiring), stages_(stages), store_(store) {}

std::int64_t Exchange::place_of(std::int64_t stage) const {
  const bool coordinator = stage < 0 || stage == wiring_->loss();
  return coordinator ? kCoordinator : stages_[static_cast<std::size_t>(stage)].place;
}

std::size_t Exchange::place_among_consumers(std::size_t tensor, std::int64_t consumer) const {
  const auto& consumers = wiring_->tensors[tensor].consumers;
  return static_cast<std::size_t>(std::ranges::find(consumers, consumer) - consumers.begin());
}

void Exchange::clear() {
  for (const Slot& slot : slots_) {
    if (slot.activation) drop(*slot.activation, slot.takers_left);
    for (const auto& gradient : slot.gradients) {
      if (gradient) drop(*gradient, 1);
    }
  }
  slots_.clear();
}

void Exchange::begin(std::int64_t micro_batches) {
  const std::lock_guard lock(mutex_);
  clear();
  failure_.reset();
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    for (const BoundaryTensor& tensor : wiring_->tensors) {
      slots_.push_back({.activation = {},
                        .takers_left = static_cast<std::int64_t>(tensor.consumers.size()),
                        .gradients = std::vector<std::optional<Parcel>>(tensor.consumers.size())});
    }
  }
}

Result<Exchange::Parcel> Exchange::pack(std::vector<float> values, std::size_t takers) {
  if (store_ == nullptr) return Parcel{.values = std::move(values), .digest = {}};
  MUSTER_TRY(const Digest digest,
             store_->put(std::as_bytes(std::span(values)), static_cast<std::int64_t>(takers)));
  return Parcel{.values = {}, .digest = digest};
}

Result<std::vector<float>> Exchange::unpack(Parcel parcel) {
  if (store_ == nullptr) return std::move(parcel.values);
  MUSTER_TRY(const Bytes bytes, store_->take(parcel.digest));
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

void Exchange::drop(const Parcel& parcel, std::int64_t takers) {
  if (store_ != nullptr) store_->drop(parcel.digest, takers);
}

Status Exchange::put_activation(std::size_t tensor, std::int64_t micro_batch,
                                std::vector<float> values) {
  const BoundaryTensor& what = wiring_->tensors[tensor];
  for (const std::int64_t consumer : what.consumers) {
    if (place_of(consumer) == place_of(what.producer)) continue;
    activation_bytes_ += values.size() * sizeof(float);
  }
  MUSTER_TRY(Parcel parcel, pack(std::move(values), what.consumers.size()));
  {
    const std::lock_guard lock(mutex_);
    slots_[slot_of(tensor, micro_batch)].activation = std::move(parcel);
  }
  changed_.notify_all();
  return {};
}

Result<std::vector<float>> Exchange::take_activation(std::size_t tensor, std::int64_t micro_batch) {
  Parcel parcel;
  {
    std::unique_lock lock(mutex_);
    Slot& slot = slots_[slot_of(tensor, micro_batch)];
    changed_.wait(lock, [&] { return slot.activation.has_value() || failure_.has_value(); });
    if (failure_) return *failure_;
    if (--slot.takers_left > 0) {
      parcel = *slot.activation;
    } else {
      parcel = *std::exchange(slot.activation, std::nullopt);
    }
  }
  return unpack(std::move(parcel));
}

Status Exchange::put_gradient(std::size_t tensor, std::int64_t micro_batch, std::int64_t consumer,
                              std::vector<float> values) {
  const BoundaryTensor& what = wiring_->tensors[tensor];
  if (place_of(consumer) != place_of(what.producer)) {
    gradient_bytes_ += values.size() * sizeof(float);
  }
  MUSTER_TRY(Parcel parcel, pack(std::move(values), 1));
  {
    const std::lock_guard lock(mutex_);
    slots_[slot_of(tensor, micro_batch)].gradients[place_among_consumers(tensor, consumer)] =
        std::move(parcel);
  }
  changed_.notify_all();
  return {};
}

Result<std::vector<float>> Exchange::take_gradient(std::size_t tensor, std::int64_t micro_batch) {
  std::vector<std::optional<Parcel>> parcels;
  {
    std::unique_lock lock(mutex_);
    Slot& slot = slots_[slot_of(tensor, micro_batch)];
    changed_.wait(lock, [&] {
      return failure_.has_value() ||
             std::ranges::all_of(slot.gradients, [](const auto& one) { return one.has_value(); });
    });
    if (failure_) return *failure_;
    parcels = std::exchange(slot.gradients, {});
  }
  MUSTER_TRY(std::vector<float> sum, unpack(*std::move(parcels.back())));
  for (std::size_t i = parcels.size() - 1; i-- > 0;) {
    MUSTER_TRY(const std::vector<float> more, unpack(*std::move(parcels[i])));
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += more[k];
  }
  return sum;
}

void Exchange::fail(Error error) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(error);
  }
  changed_.notify_all();
}

std::optional<Error> Exchange::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace muster
