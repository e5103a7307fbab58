#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/aligned_floats.h"
#include "core/base/digest.h"
#include "core/base/error.h"

namespace muster {

using Shape = std::vector<std::int64_t>;

// "[784, 200]"
std::string to_string(const Shape& shape);

// The product of the dimensions; a shape of rank 0 has one element.
// Errors: kInvalidArgument for a negative dimension or a product over 2^48.
Result<std::int64_t> element_count(const Shape& shape);

// The safetensors key that holds a file's metadata, and so can be no tensor's name.
inline constexpr std::string_view kMetadataName = "__metadata__";

// Names of tensors are those of PyTorch and others: any UTF-8 text of at most 512 bytes but
// kMetadataName. They come from outside: compare them, print them with `printable`, never use them
// as a path.
Status check_tensor_name(std::string_view name);

// One named tensor of a layout. offset and size count elements, not bytes.
struct TensorSpec {
  std::string name;
  Shape shape;
  std::int64_t offset = 0;
  std::int64_t size = 0;
};

// The names, shapes and places of a model's tensors: immutable, shared by every state of that
// model. Tensors lie one after another in order of their names (byte order), whatever order they
// were given in, so two layouts with equal names and shapes are equal and have equal digests. Safe
// to read from any thread.
class StateLayout {
 public:
  struct Entry {
    std::string name;
    Shape shape;
  };

  // Errors: kInvalidArgument, reason "bad_layout", for a name given twice, a name that
  // check_tensor_name refuses, a shape that does not fit, or more than 2^48 elements in all.
  static Result<std::shared_ptr<const StateLayout>> create(std::vector<Entry> entries);

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  std::int64_t num_elements() const { return num_elements_; }
  // SHA-256 over the canonical safetensors header of this layout.
  const Digest& digest() const { return digest_; }
  // nullptr when there is none of that name. O(log n).
  const TensorSpec* find(std::string_view name) const;

  bool operator==(const StateLayout& other) const { return digest_ == other.digest_; }

 private:
  StateLayout() = default;
  std::vector<TensorSpec> tensors_;
  std::int64_t num_elements_ = 0;
  Digest digest_;
};

using LayoutPtr = std::shared_ptr<const StateLayout>;

// Says in one sentence how `found` differs from `wanted` (missing, extra, other shape), naming the
// tensor. Errors: kInvalidArgument with reason "missing_tensor", "extra_tensor" or
// "shape_mismatch".
Status check_same_layout(const StateLayout& wanted, const StateLayout& found);

// A model's values: a shared layout and ONE contiguous float32 buffer, aligned to 64 bytes, in
// which every tensor is a view. So an operation on a whole model is one pass over `values()`.
// Movable; copied only by `clone`. Not synchronised: one writer, or any number of readers.
class StateDict {
 public:
  // All zeros.
  explicit StateDict(LayoutPtr layout);
  StateDict(StateDict&&) noexcept = default;
  StateDict& operator=(StateDict&&) noexcept = default;

  StateDict clone() const;

  const StateLayout& layout() const { return *layout_; }
  const LayoutPtr& layout_ptr() const { return layout_; }

  std::span<float> values() { return {buffer_.get(), size()}; }
  std::span<const float> values() const { return {buffer_.get(), size()}; }

  // The values of one tensor, row-major; the name must be in the layout.
  std::span<float> tensor(std::string_view name);
  std::span<const float> tensor(std::string_view name) const;
  std::span<float> tensor(const TensorSpec& spec);
  std::span<const float> tensor(const TensorSpec& spec) const;

  // Equal layouts and equal bits.
  bool operator==(const StateDict& other) const;

 private:
  struct Uninitialised {};
  StateDict(LayoutPtr layout, Uninitialised);
  std::size_t size() const { return static_cast<std::size_t>(layout_->num_elements()); }

  LayoutPtr layout_;
  AlignedFloats buffer_;
};

// The first element that is NaN or infinite, as an index into `values`; -1 when all are finite.
std::int64_t find_non_finite(std::span<const float> values);

// Errors: kInvalidArgument, reason "non_finite", naming tensor, index in it and value.
Status check_finite(const StateLayout& layout, std::span<const float> values);

}  // namespace muster
