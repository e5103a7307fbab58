#include "core/train/data/array_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/tensor/convert.h"

namespace muster {
namespace {

bool is_float(Dtype dtype) {
  return dtype == Dtype::kF16 || dtype == Dtype::kBF16 || dtype == Dtype::kF32 ||
         dtype == Dtype::kF64;
}

// Calls `visit` with a value of the C++ type of an integer dtype; booleans are bytes.
template <typename Visit>
auto with_integer(Dtype dtype, const Visit& visit) {
  switch (dtype) {
    case Dtype::kI8:
      return visit(std::int8_t{});
    case Dtype::kI16:
      return visit(std::int16_t{});
    case Dtype::kU16:
      return visit(std::uint16_t{});
    case Dtype::kI32:
      return visit(std::int32_t{});
    case Dtype::kU32:
      return visit(std::uint32_t{});
    case Dtype::kI64:
      return visit(std::int64_t{});
    case Dtype::kU64:
      return visit(std::uint64_t{});
    default:
      return visit(std::uint8_t{});
  }
}

// An array with its elements in C's order and this machine's bytes (core/tensor/convert.cc holds
// that these are little-endian). Shares the file's bytes where they are so already.
class ArrayReader {
 public:
  ArrayReader(const FileArray& array, const std::string& reason)
      : array_(array), reason_(reason), size_(size_in_bytes(array.dtype)), data_(array.data) {
    if (array.first_index_fastest && array.shape.size() > 1) {
      reorder();
    } else if (array.big_endian && size_ > 1) {
      own_.assign(data_.begin(), data_.end());
    }
    if (own_.empty()) return;
    if (array.big_endian) swap_bytes();
    data_ = own_;
  }

  std::size_t count() const { return data_.size() / size_; }

  template <typename T>
  T at(std::size_t i) const {
    T value;
    std::memcpy(&value, data_.data() + i * sizeof(T), sizeof(T));
    return value;
  }

  // A boolean that is neither 0 nor 1 is damage.
  auto boolean_check() const {
    const bool boolean = array_.dtype == Dtype::kBool;
    return [boolean](auto value) -> const char* {
      return boolean && std::cmp_greater(value, 1) ? "0 or 1 (a boolean)" : nullptr;
    };
  }

  // The integers as `To`, checked one by one: `check` gives what was wanted instead, or nothing.
  template <typename To, typename Check>
  Result<std::vector<To>> integers(const Check& check) const {
    std::vector<To> out(count());
    Status status = with_integer(array_.dtype, [&](auto kind) -> Status {
      using T = decltype(kind);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const T value = at<T>(i);
        if (const char* wanted = check(value); wanted != nullptr) {
          return bad_value(i, fmt::format("{}", value), wanted);
        }
        out[i] = static_cast<To>(value);
      }
      return {};
    });
    if (!status) return std::move(status).error();
    return out;
  }

  // Smallest and largest lie in [0, high].
  bool fits(std::uint64_t high) const {
    return with_integer(array_.dtype, [&](auto kind) {
      using T = decltype(kind);
      for (std::size_t i = 0; i < count(); ++i) {
        const T value = at<T>(i);
        if (std::cmp_less(value, 0) || std::cmp_greater(value, high)) return false;
      }
      return true;
    });
  }

  // Any dtype, divided by the scale.
  Result<std::vector<float>> floats(float scale) const {
    std::vector<float> out;
    if (!is_float(array_.dtype)) {
      MUSTER_TRY(out, integers<float>(boolean_check()));
    } else {
      out.resize(count());
      if (array_.dtype == Dtype::kF64) {
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(at<double>(i));
      } else {
        MUSTER_TRY_STATUS(convert_to_float32(array_.dtype, data_, out));
      }
    }
    if (scale != 1.0F) {
      for (float& value : out) value /= scale;
    }
    if (const std::int64_t at_index = find_non_finite(out); at_index >= 0) {
      const auto i = static_cast<std::size_t>(at_index);
      return bad_value(i, printed(i), "a number that is finite as float32");
    }
    return out;
  }

  Error bad(const std::string& message) const {
    return {ErrorCode::kInvalidArgument, array_.name + ": " + message, reason_};
  }

 private:
  std::string printed(std::size_t i) const {
    if (array_.dtype == Dtype::kF64) return fmt::format("{}", at<double>(i));
    if (!is_float(array_.dtype)) {
      return with_integer(array_.dtype,
                          [&](auto kind) { return fmt::format("{}", at<decltype(kind)>(i)); });
    }
    float value = 0;
    const auto bytes = data_.subspan(i * size_, size_);
    return convert_to_float32(array_.dtype, bytes, {&value, 1}) ? fmt::format("{}", value) : "?";
  }

  // `i` counts in C's order.
  Error bad_value(std::size_t i, const std::string& found, const std::string& wanted) const {
    Shape index(array_.shape.size());
    std::size_t rest = i;
    for (std::size_t d = index.size(); d-- > 0;) {
      const auto length = static_cast<std::size_t>(array_.shape[d]);
      index[d] = static_cast<std::int64_t>(rest % length);
      rest /= length;
    }
    std::uint64_t place = i;
    if (array_.first_index_fastest) {
      place = 0;
      for (std::size_t d = index.size(); d-- > 0;) {
        place = place * static_cast<std::uint64_t>(array_.shape[d]) +
                static_cast<std::uint64_t>(index[d]);
      }
    }
    return {ErrorCode::kInvalidArgument,
            fmt::format("{}: byte {}: the value at {} is {}, {} is wanted", array_.name,
                        array_.begin + place * size_, to_string(index), found, wanted),
            reason_};
  }

  // From the first index fastest to the last.
  void reorder() {
    const std::size_t rank = array_.shape.size();
    std::vector<std::size_t> steps(rank, 1);
    for (std::size_t d = 1; d < rank; ++d) {
      steps[d] = steps[d - 1] * static_cast<std::size_t>(array_.shape[d - 1]);
    }
    own_.resize(data_.size());
    std::vector<std::size_t> index(rank, 0);
    std::size_t from = 0;
    for (std::size_t i = 0; i < count(); ++i) {
      std::memcpy(own_.data() + i * size_, array_.data.data() + from * size_, size_);
      for (std::size_t d = rank; d-- > 0;) {
        from += steps[d];
        if (++index[d] < static_cast<std::size_t>(array_.shape[d])) break;
        from -= index[d] * steps[d];
        index[d] = 0;
      }
    }
  }

  void swap_bytes() {
    for (std::size_t i = 0; i < own_.size(); i += size_) {
      std::reverse(own_.begin() + static_cast<std::ptrdiff_t>(i),
                   own_.begin() + static_cast<std::ptrdiff_t>(i + size_));
    }
  }

  const FileArray& array_;
  const std::string& reason_;
  std::size_t size_;
  Bytes own_;
  ByteView data_;
};

Status read_features(const ArrayReader& reader, Dtype dtype, const ArrayOptions& options,
                     DatasetRows& rows) {
  const float scale = options.scale.value_or(dtype == Dtype::kU8 ? 255.0F : 1.0F);
  const bool integer = !is_float(dtype);
  if (integer && (scale == 1.0F || dtype == Dtype::kU8) && reader.fits(255)) {
    rows.byte_divisor = scale;
    MUSTER_TRY(rows.bytes, reader.integers<std::uint8_t>(reader.boolean_check()));
  } else if (integer && scale == 1.0F && reader.fits(65535)) {
    MUSTER_TRY(rows.words, reader.integers<std::uint16_t>(reader.boolean_check()));
  } else {
    MUSTER_TRY(rows.floats, reader.floats(scale));
  }
  return {};
}

Status read_targets(const ArrayReader& reader, Dtype dtype, const ArrayOptions& options,
                    DatasetRows& rows) {
  if (options.targets == ArrayOptions::Targets::kValues) {
    MUSTER_TRY(rows.values, reader.floats(1.0F));
    return {};
  }
  if (is_float(dtype)) {
    return reader.bad(fmt::format(
        "dtype {} found, class labels want integers (or targets=values, for regression)",
        to_string(dtype)));
  }
  const auto in_range = [](auto value) -> const char* {
    return std::cmp_less(value, 0) || std::cmp_greater(value, kLargestArrayLabel)
               ? "a class label from 0 to 16777215"
               : nullptr;
  };
  static_assert(kLargestArrayLabel == 16'777'215);
  if (dtype == Dtype::kBool) {
    MUSTER_TRY(rows.labels, reader.integers<std::int32_t>(reader.boolean_check()));
  } else {
    MUSTER_TRY(rows.labels, reader.integers<std::int32_t>(in_range));
  }
  return {};
}

}  // namespace

Result<Dataset> dataset_from_arrays(const FileArray& features, const FileArray& targets,
                                    const ArrayOptions& options, const std::string& reason) {
  const auto bad = [&](const FileArray& array, const std::string& what) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: shape {} found, {}", array.name, to_string(array.shape), what),
                 reason};
  };
  if (features.shape.size() < 2) return bad(features, "features want at least two dimensions");
  if (targets.shape.empty()) return bad(targets, "targets want at least one dimension");
  if (features.shape[0] != targets.shape[0]) {
    return bad(targets, fmt::format("{} targets are wanted, as {} has examples", features.shape[0],
                                    features.name));
  }
  if (features.data.empty()) return bad(features, "there are no examples");
  if (targets.data.empty()) return bad(targets, "there are no targets");
  DatasetRows rows;
  rows.shape.assign(features.shape.begin() + 1, features.shape.end());
  for (std::size_t d = 1; d < targets.shape.size(); ++d) rows.target_size *= targets.shape[d];
  MUSTER_TRY_STATUS(read_features(ArrayReader(features, reason), features.dtype, options, rows));
  MUSTER_TRY_STATUS(read_targets(ArrayReader(targets, reason), targets.dtype, options, rows));
  return Dataset::create(std::move(rows));
}

}  // namespace muster
