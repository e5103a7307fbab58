#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/aggregate/aggregator.h"
#include "core/aggregate/encoding/update_encoding.h"
#include "core/base/file.h"

namespace muster::bench {

// Updates to aggregate: `count` states near a global state, in memory or as mapped files of an
// encoding. Lives as long as it is aggregated.
class Updates {
 public:
  // Float32 states in memory.
  Updates(std::int64_t count, std::int64_t elements);
  // The same as they come over the wire, in files below `folder`, which are gone at the end. With
  // `distinct` fewer than `count`, files are mapped more than once.
  Updates(std::int64_t count, std::int64_t elements, const UpdateEncoding& encoding,
          const std::filesystem::path& folder, std::int64_t distinct);
  ~Updates();
  Updates(const Updates&) = delete;
  Updates& operator=(const Updates&) = delete;

  std::int64_t count() const { return static_cast<std::int64_t>(contributions_.size()); }
  std::int64_t elements() const { return global_->layout().num_elements(); }
  std::uint64_t bytes_each() const { return bytes_each_; }
  UpdateContent content() const { return content_; }
  const StateDict& global() const { return *global_; }
  const std::vector<Contribution>& contributions() const { return contributions_; }
  // Where each one's bytes lie, for reading them.
  const std::vector<ByteView>& bytes() const { return bytes_; }
  // Gives the pages of mapped files back, as aggregating does.
  void release() const;

  // As the server does: every update was checked when it came in.
  Outcome aggregate(const AggregationSettings& settings, Workers* workers,
                    bool known_finite = true) const;

 private:
  std::unique_ptr<StateDict> global_;
  UpdateContent content_ = UpdateContent::kState;
  std::vector<StateDict> states_;
  std::vector<MappedFile> files_;
  std::vector<std::filesystem::path> paths_;
  std::vector<Contribution> contributions_;
  std::vector<ByteView> bytes_;
  std::uint64_t bytes_each_ = 0;
};

// Adds up all bytes of `parts` as 64-bit numbers: what reading them takes at least.
std::uint64_t read_all(const std::vector<ByteView>& parts, Workers& workers);

// [n, n] products of all pairs of rows by matrix multiplication in float32: Krum's Gram matrix.
// Multiplies with all of [n, n], as a GEMM does.
void gram_matrix(const std::vector<ByteView>& rows, std::int64_t elements, Workers& workers,
                 std::vector<float>& gram);

// Peak resident memory of this process since the last `reset_peak`, in bytes (Linux).
void reset_peak();
std::uint64_t peak_bytes();

}  // namespace muster::bench
