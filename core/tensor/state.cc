#include "core/tensor/state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>

#include "core/base/bytes.h"
#include "core/base/invariant.h"
#include "core/tensor/safetensors.h"

namespace muster {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 48;
constexpr std::size_t kLongestTensorName = 512;

Error bad_layout(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message), "bad_layout"};
}

std::string quoted(std::string_view name) {
  return fmt::format("tensor \"{}\"", printable(name));
}

}  // namespace

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Result<std::int64_t> element_count(const Shape& shape) {
  // A dimension of 0 does not excuse the others: the answer may not depend on their order.
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) {
      return bad_layout(fmt::format("shape {} has a negative dimension", to_string(shape)));
    }
    if (dimension == 0) {
      empty = true;
    } else if (dimension > kMostElements / count) {
      return bad_layout(
          fmt::format("shape {} has more than {} elements", to_string(shape), kMostElements));
    } else {
      count *= dimension;
    }
  }
  return empty ? 0 : count;
}

Status check_tensor_name(std::string_view name) {
  if (name == kMetadataName) {
    return bad_layout(fmt::format("a tensor may not be called \"{}\"", kMetadataName));
  }
  if (name.size() > kLongestTensorName) {
    return bad_layout(fmt::format("{} has a name of {} bytes, at most {} are allowed", quoted(name),
                                  name.size(), kLongestTensorName));
  }
  if (!is_utf8(name))
    return bad_layout(fmt::format("{} has a name that is not UTF-8", quoted(name)));
  return {};
}

Result<std::shared_ptr<const StateLayout>> StateLayout::create(std::vector<Entry> entries) {
  // std::string compares bytes as unsigned.
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  std::shared_ptr<StateLayout> layout(new StateLayout());
  layout->tensors_.reserve(entries.size());
  for (Entry& entry : entries) {
    MUSTER_TRY_STATUS(check_tensor_name(entry.name));
    if (!layout->tensors_.empty() && layout->tensors_.back().name == entry.name) {
      return bad_layout(fmt::format("{} is given twice", quoted(entry.name)));
    }
    MUSTER_TRY_IN(quoted(entry.name), const std::int64_t size, element_count(entry.shape));
    if (size > kMostElements - layout->num_elements_) {
      return bad_layout(fmt::format("the layout has more than {} elements at {}", kMostElements,
                                    quoted(entry.name)));
    }
    layout->tensors_.push_back(
        {std::move(entry.name), std::move(entry.shape), layout->num_elements_, size});
    layout->num_elements_ += size;
  }
  layout->digest_ = sha256(safetensors_header(*layout));
  return LayoutPtr(std::move(layout));
}

const TensorSpec* StateLayout::find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const TensorSpec& spec, std::string_view wanted) { return spec.name < wanted; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

Status check_same_layout(const StateLayout& wanted, const StateLayout& found) {
  if (wanted == found) return {};
  const auto differs = [](std::string message, std::string_view reason) {
    return Error{ErrorCode::kInvalidArgument, std::move(message), std::string(reason)};
  };
  // Missing before extra: of a tensor with another name, the one that was wanted is told.
  for (const TensorSpec& spec : wanted.tensors()) {
    const TensorSpec* other = found.find(spec.name);
    if (other == nullptr) {
      return differs(
          fmt::format("{} with shape {} is missing", quoted(spec.name), to_string(spec.shape)),
          "missing_tensor");
    }
    if (other->shape != spec.shape) {
      return differs(fmt::format("{} has shape {}, {} is wanted", quoted(spec.name),
                                 to_string(other->shape), to_string(spec.shape)),
                     "shape_mismatch");
    }
  }
  for (const TensorSpec& spec : found.tensors()) {
    if (wanted.find(spec.name) == nullptr) {
      return differs(fmt::format("{} is not one of the {} tensors that are wanted",
                                 quoted(spec.name), wanted.tensors().size()),
                     "extra_tensor");
    }
  }
  invariant_broken("two layouts differ in their digests only");
}

StateDict::StateDict(LayoutPtr layout) : StateDict(std::move(layout), Uninitialised{}) {
  std::memset(buffer_.get(), 0, size() * sizeof(float));
}

StateDict::StateDict(LayoutPtr layout, Uninitialised)
    : layout_(std::move(layout)), buffer_(make_aligned_floats(layout_->num_elements())) {
  if (buffer_ == nullptr) throw std::bad_alloc();
}

StateDict StateDict::clone() const {
  StateDict copy(layout_, Uninitialised{});
  std::memcpy(copy.buffer_.get(), buffer_.get(), size() * sizeof(float));
  return copy;
}

std::span<float> StateDict::tensor(const TensorSpec& spec) {
  return values().subspan(static_cast<std::size_t>(spec.offset),
                          static_cast<std::size_t>(spec.size));
}

std::span<const float> StateDict::tensor(const TensorSpec& spec) const {
  return values().subspan(static_cast<std::size_t>(spec.offset),
                          static_cast<std::size_t>(spec.size));
}

std::span<float> StateDict::tensor(std::string_view name) {
  const TensorSpec* spec = layout_->find(name);
  if (spec == nullptr) invariant_broken(quoted(name) + " is not in the layout");
  return tensor(*spec);
}

std::span<const float> StateDict::tensor(std::string_view name) const {
  const TensorSpec* spec = layout_->find(name);
  if (spec == nullptr) invariant_broken(quoted(name) + " is not in the layout");
  return tensor(*spec);
}

bool StateDict::operator==(const StateDict& other) const {
  return layout() == other.layout() &&
         std::memcmp(buffer_.get(), other.buffer_.get(), size() * sizeof(float)) == 0;
}

namespace {

constexpr std::uint32_t kExponentBits = 0x7f80'0000;

bool is_non_finite(float value) {
  return (std::bit_cast<std::uint32_t>(value) & kExponentBits) == kExponentBits;
}

// No early exit, so that the loop is vectorised.
bool any_non_finite(std::span<const float> values) {
  std::uint32_t any = 0;
  for (const float value : values) any |= static_cast<std::uint32_t>(is_non_finite(value));
  return any != 0;
}

}  // namespace

std::int64_t find_non_finite(std::span<const float> values) {
  constexpr std::size_t kBlock = 4096;  // 16 KiB: the second look finds it in the first cache
  for (std::size_t start = 0; start < values.size(); start += kBlock) {
    const auto block = values.subspan(start, std::min(kBlock, values.size() - start));
    if (!any_non_finite(block)) continue;
    const auto at = std::find_if(block.begin(), block.end(), is_non_finite);
    return static_cast<std::int64_t>(start) + (at - block.begin());
  }
  return -1;
}

Status check_finite(const StateLayout& layout, std::span<const float> values) {
  const std::int64_t at = find_non_finite(values);
  if (at < 0) return {};
  // The last tensor that begins at or before the place is the one around it: empty ones share its
  // beginning but come first.
  const std::vector<TensorSpec>& tensors = layout.tensors();
  const auto after = std::upper_bound(
      tensors.begin(), tensors.end(), at,
      [](std::int64_t place, const TensorSpec& spec) { return place < spec.offset; });
  if (after == tensors.begin()) invariant_broken("values without a layout");
  const TensorSpec& spec = *std::prev(after);
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("{} has the value {} at index {}, a finite one is wanted", quoted(spec.name),
                  values[static_cast<std::size_t>(at)], at - spec.offset),
      "non_finite"};
}

}  // namespace muster
