#include "core/tensor/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/tensor/convert.h"

namespace muster {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kDataAlignment = 64;

// JSON's string with the escapes that serde_json (and so the format's own library) writes; all else
// stays as it is.
void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

Result<LayoutPtr> layout_of(const SafetensorsHeader& header) {
  std::vector<StateLayout::Entry> entries;
  entries.reserve(header.tensors.size());
  for (const SafetensorsTensor& tensor : header.tensors) {
    entries.push_back({tensor.name, tensor.shape});
  }
  return StateLayout::create(std::move(entries));
}

// The header's tensors have the layout's names and shapes, and hold F32.
Status check_expected(const SafetensorsHeader& header, const StateLayout& expected) {
  MUSTER_TRY(const LayoutPtr found, layout_of(header));
  MUSTER_TRY_STATUS(check_same_layout(expected, *found));
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (tensor.dtype == Dtype::kF32) continue;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("tensor \"{}\" has dtype {}, F32 is wanted", printable(tensor.name),
                             to_string(tensor.dtype)),
                 "dtype_mismatch"};
  }
  return {};
}

// Says before memory is taken that a state cannot be made of this.
Status check_convertible(const SafetensorsHeader& header) {
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (auto able = convert_to_float32(tensor.dtype, {}, {}); !able) {
      return with_context(std::move(able).error(),
                          fmt::format("tensor \"{}\"", printable(tensor.name)));
    }
  }
  return {};
}

ByteView bytes_of(const StateDict& state) {
  return std::as_bytes(state.values());
}

// The header of a file as it grows: length, JSON, spaces.
class HeaderText {
 public:
  void add_metadata(const SafetensorsMetadata& metadata) {
    if (metadata.empty()) return;
    append_quoted(text_, kMetadataName);
    text_ += ":{";
    for (const auto& [key, text] : metadata) {
      if (text_.back() != '{') text_ += ',';
      append_quoted(text_, key);
      text_ += ':';
      append_quoted(text_, text);
    }
    text_ += '}';
  }
  // begin, end: bytes from the start of the data.
  void add_tensor(std::string_view name, Dtype dtype, const Shape& shape, std::uint64_t begin,
                  std::uint64_t end) {
    if (text_.size() > kLengthBytes + 1) text_ += ',';
    append_quoted(text_, name);
    fmt::format_to(std::back_inserter(text_),
                   R"(:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", to_string(dtype),
                   fmt::join(shape, ","), begin, end);
  }
  std::string finish() && {
    text_ += '}';
    text_.append((kDataAlignment - text_.size() % kDataAlignment) % kDataAlignment, ' ');
    std::array<std::byte, kLengthBytes> length{};
    store_le64(text_.size() - kLengthBytes, length);
    std::memcpy(text_.data(), length.data(), length.size());
    return std::move(text_);
  }

 private:
  std::string text_ = std::string(kLengthBytes, '\0') + '{';
};

// Of the whole file; metadata before the tensors where there is any.
std::string header_of(const StateLayout& layout, const SafetensorsMetadata& metadata) {
  HeaderText header;
  header.add_metadata(metadata);
  for (const TensorSpec& spec : layout.tensors()) {
    const auto begin = static_cast<std::uint64_t>(4 * spec.offset);
    header.add_tensor(spec.name, Dtype::kF32, spec.shape, begin,
                      begin + static_cast<std::uint64_t>(4 * spec.size));
  }
  return std::move(header).finish();
}

Bytes file_of(const std::string& header, const StateDict& state) {
  const ByteView data = bytes_of(state);
  Bytes file;
  file.reserve(header.size() + data.size());
  file.insert(file.end(), as_bytes(header).begin(), as_bytes(header).end());
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

}  // namespace

Result<StateDict> read_state(ByteView file, const LayoutPtr& expected,
                             const SafetensorsLimits& limits) {
  MUSTER_TRY(const SafetensorsHeader header, parse_safetensors_header(file, file.size(), limits));
  LayoutPtr layout = expected;
  if (expected != nullptr) {
    MUSTER_TRY_STATUS(check_expected(header, *expected));
  } else {
    MUSTER_TRY_STATUS(check_convertible(header));
    MUSTER_TRY(layout, layout_of(header));
  }
  StateDict state(layout);
  const ByteView data = file.subspan(header.data_begin);
  for (const SafetensorsTensor& tensor : header.tensors) {
    const ByteView bytes = data.subspan(tensor.begin, tensor.end - tensor.begin);
    if (auto done = convert_to_float32(tensor.dtype, bytes, state.tensor(tensor.name)); !done) {
      return with_context(std::move(done).error(),
                          fmt::format("tensor \"{}\"", printable(tensor.name)));
    }
  }
  return state;
}

Result<std::span<const float>> view_canonical_state(ByteView file, const StateLayout& layout) {
  const std::string header = safetensors_header(layout);
  const std::size_t elements = static_cast<std::size_t>(layout.num_elements());
  if (file.size() != header.size() + elements * sizeof(float) ||
      !as_text(file).starts_with(header)) {
    // What is wrong with it in substance comes before the form.
    MUSTER_TRY(const SafetensorsHeader found, parse_safetensors_header(file, file.size()));
    MUSTER_TRY_STATUS(check_expected(found, layout));
    return Error{ErrorCode::kInvalidArgument,
                 "the header is not in canonical form (tensors in order of name, no metadata, data "
                 "at a multiple of 64 bytes)",
                 "not_canonical"};
  }
  const std::byte* data = file.data() + header.size();
  if (reinterpret_cast<std::uintptr_t>(data) % alignof(float) != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "the file lies in memory at an address that is no multiple of 4", "not_canonical"};
  }
  return std::span<const float>(reinterpret_cast<const float*>(data), elements);
}

std::string safetensors_header(const StateLayout& layout) {
  return header_of(layout, {});
}

std::string safetensors_header(std::span<const SafetensorsTensor> tensors) {
  HeaderText header;
  for (const SafetensorsTensor& tensor : tensors) {
    header.add_tensor(tensor.name, tensor.dtype, tensor.shape, tensor.begin, tensor.end);
  }
  return std::move(header).finish();
}

Result<std::string> safetensors_header(const StateLayout& layout,
                                       const SafetensorsMetadata& metadata,
                                       const SafetensorsLimits& limits) {
  for (const auto& [key, text] : metadata) {
    if (is_utf8(key) && is_utf8(text)) continue;
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("{}: \"{}\" has bytes that are not UTF-8", kMetadataName, printable(key)),
        "bad_metadata"};
  }
  std::string header = header_of(layout, metadata);
  const std::uint64_t length = header.size() - kLengthBytes;
  if (!metadata.empty() && length > limits.header_bytes) {
    return Error{ErrorCode::kResourceExhausted,
                 fmt::format("with {} the header's length is {}, over the limit {}", kMetadataName,
                             length, limits.header_bytes),
                 "bad_metadata"};
  }
  return header;
}

std::uint64_t safetensors_bytes(const StateLayout& layout) {
  return safetensors_header(layout).size() +
         static_cast<std::uint64_t>(layout.num_elements()) * sizeof(float);
}

Bytes write_state(const StateDict& state) {
  return file_of(safetensors_header(state.layout()), state);
}

Result<Bytes> write_state(const StateDict& state, const SafetensorsMetadata& metadata,
                          const SafetensorsLimits& limits) {
  MUSTER_TRY(const std::string header, safetensors_header(state.layout(), metadata, limits));
  return file_of(header, state);
}

Digest state_digest(const StateDict& state) {
  Sha256 hash;
  hash.update(as_bytes(safetensors_header(state.layout())));
  hash.update(bytes_of(state));
  return hash.finish();
}

}  // namespace muster
