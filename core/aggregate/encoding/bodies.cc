#include "core/aggregate/encoding/bodies.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/tensor/kernels/kernels.h"

namespace muster {
namespace {

bool is_aligned(const std::byte* address, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

class MappedBody : public UpdateValues {
 public:
  // What was read to open it is not wanted again soon.
  MappedBody(MappedFile file, LayoutPtr layout)
      : file_(std::move(file)), layout_(std::move(layout)) {
    file_.release(0, file_.bytes().size());
  }

  const StateLayout& layout() const final { return *layout_; }
  std::int64_t size() const final { return layout_->num_elements(); }

 protected:
  const std::byte* at(std::size_t offset) const { return file_.bytes().data() + offset; }
  const MappedFile& file() const { return file_; }

 private:
  MappedFile file_;
  LayoutPtr layout_;
};

class FloatBody final : public MappedBody {
 public:
  FloatBody(MappedFile file, LayoutPtr layout, Dtype dtype, std::vector<FloatPiece> pieces)
      : MappedBody(std::move(file), std::move(layout)),
        dtype_(dtype),
        width_(size_in_bytes(dtype)) {
    std::sort(pieces.begin(), pieces.end(), [](const FloatPiece& a, const FloatPiece& b) {
      return a.begin < b.begin || (a.begin == b.begin && a.size < b.size);
    });
    for (const FloatPiece& piece : pieces) add(piece);
  }

  const float* read(std::int64_t begin, std::int64_t count, float* scratch) const override {
    const float* in_place = nullptr;
    float* to = scratch;
    for_each(begin, count, [&](std::size_t from, std::int64_t n) {
      const std::byte* data = at(from);
      if (n == count && dtype_ == Dtype::kF32 && is_aligned(data, alignof(float))) {
        in_place = reinterpret_cast<const float*>(data);
        return;
      }
      decode_floats(dtype_, data, n, to);
      to += n;
    });
    return in_place != nullptr ? in_place : scratch;
  }

  void release(std::int64_t begin, std::int64_t count) const override {
    for_each(begin, count, [&](std::size_t from, std::int64_t n) {
      file().release(from, static_cast<std::size_t>(n) * width_);
    });
  }

 private:
  // Joins pieces that lie one after another in the file too.
  void add(const FloatPiece& piece) {
    if (piece.size == 0) return;
    if (!pieces_.empty()) {
      FloatPiece& last = pieces_.back();
      if (last.at + static_cast<std::size_t>(last.size) * width_ == piece.at) {
        last.size += piece.size;
        return;
      }
    }
    pieces_.push_back(piece);
  }

  // body(bytes from the start of the file, number of elements) for what the elements are made of.
  template <typename Body>
  void for_each(std::int64_t begin, std::int64_t count, const Body& body) const {
    auto piece = std::upper_bound(
        pieces_.begin(), pieces_.end(), begin,
        [](std::int64_t element, const FloatPiece& each) { return element < each.begin; });
    while (count > 0) {
      const FloatPiece& of = piece == pieces_.begin() ? *piece : *std::prev(piece);
      const std::int64_t within = begin - of.begin;
      const std::int64_t n = std::min(count, of.size - within);
      body(of.at + static_cast<std::size_t>(within) * width_, n);
      begin += n;
      count -= n;
      ++piece;
    }
  }

  Dtype dtype_;
  std::size_t width_;
  std::vector<FloatPiece> pieces_;  // in order of their elements, which they cover
};

class Int8Body final : public MappedBody {
 public:
  Int8Body(MappedFile file, LayoutPtr layout, std::size_t data, std::vector<float> scales)
      : MappedBody(std::move(file), std::move(layout)), data_(data), scales_(std::move(scales)) {}

  const float* read(std::int64_t begin, std::int64_t count, float* scratch) const override {
    const std::vector<TensorSpec>& tensors = layout().tensors();
    // The last tensor that begins at or before `begin`: those without elements come before it.
    auto tensor = std::upper_bound(
        tensors.begin(), tensors.end(), begin,
        [](std::int64_t element, const TensorSpec& spec) { return element < spec.offset; });
    const std::int64_t end = begin + count;
    for (std::int64_t element = begin; element < end; ++tensor) {
      const TensorSpec& spec = *std::prev(tensor);
      const std::int64_t n = std::min(end, spec.offset + spec.size) - element;
      if (n <= 0) continue;
      const auto index = static_cast<std::size_t>(std::prev(tensor) - tensors.begin());
      kernels::best().int8_to_float(n, scales_[index],
                                    reinterpret_cast<const std::int8_t*>(at(data_)) + element,
                                    scratch + (element - begin));
      element += n;
    }
    return scratch;
  }

  void release(std::int64_t begin, std::int64_t count) const override {
    file().release(data_ + static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  }

 private:
  std::size_t data_;
  std::vector<float> scales_;
};

class TopKBody final : public MappedBody {
 public:
  TopKBody(MappedFile file, LayoutPtr layout, std::size_t data, std::vector<std::int64_t> places)
      : MappedBody(std::move(file), std::move(layout)),
        data_(data),
        places_(std::move(places)),
        count_(places_.back()) {}

  const float* read(std::int64_t begin, std::int64_t count, float* scratch) const override {
    std::fill_n(scratch, count, 0.0F);
    const std::int64_t end = begin + count;
    const std::int64_t last = end_of_stretches(end);
    for (std::int64_t i = first_from(begin); i < last; ++i) {
      const std::int64_t index = index_of(i);
      if (index >= end) break;
      std::memcpy(scratch + (index - begin), value_at(i), sizeof(float));
    }
    return scratch;
  }

  // Whole stretches, as a search may touch any page of them.
  void release(std::int64_t begin, std::int64_t count) const override {
    if (count == 0) return;
    const std::int64_t from = places_[stretch_of(begin)];
    const std::int64_t to = end_of_stretches(begin + count);
    const auto bytes = static_cast<std::size_t>(4 * (to - from));
    file().release(data_ + static_cast<std::size_t>(4 * from), bytes);
    file().release(data_ + static_cast<std::size_t>(4 * (count_ + from)), bytes);
  }

 private:
  static std::size_t stretch_of(std::int64_t element) {
    return static_cast<std::size_t>(element / kTopKStretch);
  }
  // The place behind the indices of all stretches that have elements below `end`.
  std::int64_t end_of_stretches(std::int64_t end) const {
    return places_[stretch_of(end + kTopKStretch - 1)];
  }

  std::int64_t index_of(std::int64_t i) const {
    std::uint32_t index = 0;
    std::memcpy(&index, at(data_) + 4 * i, sizeof(index));
    return index;
  }
  const std::byte* value_at(std::int64_t i) const { return at(data_) + 4 * (count_ + i); }

  // The place of the first index that is not below `element`, at most size().
  std::int64_t first_from(std::int64_t element) const {
    std::int64_t low = places_[stretch_of(element)];
    std::int64_t high = end_of_stretches(element);
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (index_of(middle) < element) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  std::size_t data_;
  std::vector<std::int64_t> places_;  // of the first index of each stretch, and the end
  std::int64_t count_;
};

}  // namespace

void decode_floats(Dtype dtype, const std::byte* from, std::int64_t n, float* to) {
  if (dtype == Dtype::kF32) {
    if (n > 0) std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  const auto decode =
      dtype == Dtype::kF16 ? kernels::best().half_to_float : kernels::best().bfloat_to_float;
  if (is_aligned(from, alignof(std::uint16_t))) {
    decode(n, reinterpret_cast<const std::uint16_t*>(from), to);
    return;
  }
  std::array<std::uint16_t, 1024> aligned{};
  constexpr auto kMost = static_cast<std::int64_t>(aligned.size());
  for (std::int64_t done = 0; done < n; done += kMost) {
    const std::int64_t part = std::min(kMost, n - done);
    std::memcpy(aligned.data(), from + 2 * done, static_cast<std::size_t>(2 * part));
    decode(part, aligned.data(), to + done);
  }
}

ValuesPtr make_float_body(MappedFile file, LayoutPtr layout, Dtype dtype,
                          std::vector<FloatPiece> pieces) {
  return std::make_shared<FloatBody>(std::move(file), std::move(layout), dtype, std::move(pieces));
}

ValuesPtr make_int8_body(MappedFile file, LayoutPtr layout, std::size_t data,
                         std::vector<float> scales) {
  return std::make_shared<Int8Body>(std::move(file), std::move(layout), data, std::move(scales));
}

ValuesPtr make_top_k_body(MappedFile file, LayoutPtr layout, std::size_t data,
                          std::vector<std::int64_t> places) {
  return std::make_shared<TopKBody>(std::move(file), std::move(layout), data, std::move(places));
}

}  // namespace muster
