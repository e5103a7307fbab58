#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/tensor/state.h"

namespace muster {

// What a device keeps of a job from one round to the next, beside its data.
enum class KeptKind {
  kCorrection,  // SCAFFOLD's control variate, FedDyn's gradient (core/train/drift_correction.h)
  kResidual,    // what top_k left out (core/aggregate/encoding/encode.h)
};
inline constexpr KeptKind kKeptKinds[] = {KeptKind::kCorrection, KeptKind::kResidual};

struct KeptState {
  KeptKind kind = KeptKind::kCorrection;
  std::string method;  // "SCAFFOLD", "FedDyn", "top_k"
  StateDict state;
};

// "correction.safetensors", "residual.safetensors".
std::string kept_file_name(KeptKind kind);

// A state with its method and its digest among the metadata, so that damage is seen. Durable when
// it returns.
Status write_kept(const std::filesystem::path& folder, const KeptState& kept);

// The states that are kept of jobs, in a folder of the device's: <folder>/<job>/<kind>.safetensors.
// The folders of the 8 jobs that were used last stay. One thread at a time; one process at a time
// (the agent's lock).
class KeptStates {
 public:
  static constexpr std::size_t kMostJobs = 8;

  explicit KeptStates(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // What is kept of a job, whose name is checked; nothing where there is nothing. One that is
  // damaged, of another method, of another layout or not finite is removed, and `log` is told why.
  std::optional<StateDict> read(const std::string& job, KeptKind kind, std::string_view method,
                                const LayoutPtr& layout,
                                const std::function<void(const std::string&)>& log) const;

  // Moves the states that `write_kept` left in another folder, on the same file system, here; a
  // kind that has none there stays as it is. Doing it again after a crash ends the same. Durable
  // when it returns.
  Status take(const std::string& job, const std::filesystem::path& from) const;

  // Everything of a job. What cannot be removed stays.
  void forget(const std::string& job) const;

 private:
  std::filesystem::path folder_of(const std::string& job) const { return folder_ / job; }
  void remove_old(const std::string& used) const;

  std::filesystem::path folder_;
};

}  // namespace muster
