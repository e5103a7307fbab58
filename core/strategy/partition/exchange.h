#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/strategy/partition/object_store.h"
#include "core/strategy/partition/stages.h"

namespace muster {

// What travelled from one place to another, in bytes; what stays in its place does not count.
struct ExchangedBytes {
  std::uint64_t activations = 0;
  std::uint64_t gradients = 0;
};

// Where the stages of one batch leave activations and gradients for each other, by micro-batch.
// Taking waits until what is wanted was put, or until `fail`.
//
//   exchange.begin(micro_batches);
//   exchange.put_activation(t, m, values);  ...  exchange.take_activation(t, m);
//   exchange.put_gradient(t, m, consumer, values);  ...  exchange.take_gradient(t, m);
//
// Any thread may put and take, each thing once. Whoever takes before something is put must know
// that another thread puts it or fails.
class Exchange {
 public:
  // All belongs to the caller and stays where it is.
  //   store  tensors go through it; null: they are handed over in memory
  Exchange(const Wiring& wiring, std::span<const Stage> stages, ObjectStore* store);
  ~Exchange() { clear(); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Forgets what was there. No other thread may use it meanwhile.
  void begin(std::int64_t micro_batches);

  // Errors of all: those of the store; what `fail` was given.
  Status put_activation(std::size_t tensor, std::int64_t micro_batch, std::vector<float> values);
  // Once for each of the tensor's consumers.
  Result<std::vector<float>> take_activation(std::size_t tensor, std::int64_t micro_batch);
  // The derivative that one of the tensor's consumers gives.
  Status put_gradient(std::size_t tensor, std::int64_t micro_batch, std::int64_t consumer,
                      std::vector<float> values);
  // The sum of all consumers', added from the last one to the first.
  Result<std::vector<float>> take_gradient(std::size_t tensor, std::int64_t micro_batch);

  // Ends all waiting with this error; the first one counts.
  void fail(Error error);
  std::optional<Error> failure() const;

  ExchangedBytes bytes() const {
    return {.activations = activation_bytes_, .gradients = gradient_bytes_};
  }

 private:
  // A tensor on its way: in memory, or as an object of the store.
  struct Parcel {
    std::vector<float> values;
    Digest digest;
  };
  struct Slot {
    std::optional<Parcel> activation;
    std::int64_t takers_left = 0;
    std::vector<std::optional<Parcel>> gradients;  // by consumer
  };

  void clear();
  std::size_t slot_of(std::size_t tensor, std::int64_t micro_batch) const {
    return static_cast<std::size_t>(micro_batch) * wiring_->tensors.size() + tensor;
  }
  std::int64_t place_of(std::int64_t stage) const;
  std::size_t place_among_consumers(std::size_t tensor, std::int64_t consumer) const;
  Result<Parcel> pack(std::vector<float> values, std::size_t takers);
  Result<std::vector<float>> unpack(Parcel parcel);
  void drop(const Parcel& parcel, std::int64_t takers);

  const Wiring* wiring_;
  std::span<const Stage> stages_;
  ObjectStore* store_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;  // guarded by mutex_
  std::optional<Error> failure_;
  std::atomic<std::uint64_t> activation_bytes_{0};
  std::atomic<std::uint64_t> gradient_bytes_{0};
};

}  // namespace muster
