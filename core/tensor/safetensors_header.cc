// Reading and checking the header of a safetensors file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "core/base/json.h"
#include "core/tensor/safetensors.h"

namespace muster {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
// {"name": {"shape": [1]}}: three levels; the cap costs nobody anything and bounds the rest.
constexpr int kHeaderDepth = 3;

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<DtypeRow, 13> kDtypes{{{Dtype::kBool, "BOOL", 1},
                                            {Dtype::kU8, "U8", 1},
                                            {Dtype::kI8, "I8", 1},
                                            {Dtype::kI16, "I16", 2},
                                            {Dtype::kU16, "U16", 2},
                                            {Dtype::kF16, "F16", 2},
                                            {Dtype::kBF16, "BF16", 2},
                                            {Dtype::kI32, "I32", 4},
                                            {Dtype::kU32, "U32", 4},
                                            {Dtype::kF32, "F32", 4},
                                            {Dtype::kF64, "F64", 8},
                                            {Dtype::kI64, "I64", 8},
                                            {Dtype::kU64, "U64", 8}}};

const DtypeRow& row_of(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)];
}

Error bad_header(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message), "bad_header"};
}

Error bad_layout(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message), "bad_layout"};
}

Error with_reason(Error error, std::string_view reason) {
  error.reason = reason;
  return error;
}

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (const DtypeRow& row : kDtypes) names.emplace_back(row.name);
  return names;
}

// A JSON integer from 0; nothing else is a dimension or an offset.
std::optional<std::uint64_t> unsigned_integer(const Json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (value.is_number_integer() && value.get<std::int64_t>() >= 0) {
    return static_cast<std::uint64_t>(value.get<std::int64_t>());
  }
  return std::nullopt;
}

Result<Shape> read_shape(const Json& json, std::size_t most_dimensions) {
  if (!json.is_array()) {
    return bad_layout(fmt::format("shape is {}, an array of integers is wanted", describe(json)));
  }
  if (json.size() > most_dimensions) {
    return bad_header(
        fmt::format("shape has {} dimensions, over the limit of {}", json.size(), most_dimensions));
  }
  Shape shape;
  for (const Json& item : json) {
    const auto dimension = unsigned_integer(item);
    if (!dimension || !std::in_range<std::int64_t>(*dimension)) {
      return bad_layout(
          fmt::format("shape has the dimension {}, an integer from 0 is wanted", describe(item)));
    }
    shape.push_back(static_cast<std::int64_t>(*dimension));
  }
  return shape;
}

Status read_offsets(const Json& json, SafetensorsTensor& tensor) {
  if (!json.is_array() || json.size() != 2) {
    return bad_layout(fmt::format("data_offsets is {}, [begin, end] is wanted", describe(json)));
  }
  const auto begin = unsigned_integer(json[0]);
  const auto end = unsigned_integer(json[1]);
  if (!begin || !end || *begin > *end) {
    return bad_layout(
        fmt::format("data_offsets is [{}, {}], integers with 0 <= begin <= end are wanted",
                    describe(json[0]), describe(json[1])));
  }
  tensor.begin = *begin;
  tensor.end = *end;
  return {};
}

Result<SafetensorsTensor> read_entry(const std::string& name, const Json& json,
                                     const SafetensorsLimits& limits, std::uint64_t data_bytes) {
  SafetensorsTensor tensor;
  tensor.name = name;
  if (auto checked = check_tensor_name(name); !checked) {
    return with_reason(std::move(checked).error(), "bad_header");
  }
  const std::string where = fmt::format("tensor \"{}\"", printable(name));
  JsonObject object(json, where);
  const std::string dtype = object.choice("dtype", dtype_names());
  const Json& shape = object.value("shape");
  const Json& offsets = object.value("data_offsets");
  if (auto finished = object.finish(); !finished) {
    return with_reason(std::move(finished).error(), "bad_header");
  }
  const auto row = std::find_if(kDtypes.begin(), kDtypes.end(),
                                [&](const DtypeRow& each) { return each.name == dtype; });
  tensor.dtype = row->dtype;
  MUSTER_TRY_IN(where, tensor.shape, read_shape(shape, limits.rank));
  if (auto read = read_offsets(offsets, tensor); !read) {
    return with_context(std::move(read).error(), where);
  }
  if (tensor.end > data_bytes) {
    return bad_layout(fmt::format("{}: its data ends at {}, the file has {} bytes of data", where,
                                  tensor.end, data_bytes));
  }
  MUSTER_TRY_IN(where, const std::int64_t count, element_count(tensor.shape));
  const std::uint64_t wanted = static_cast<std::uint64_t>(count) * row->bytes;
  if (tensor.end - tensor.begin != wanted) {
    return bad_layout(fmt::format("{}: {} bytes of data, {} of shape {} need {}", where,
                                  tensor.end - tensor.begin, row->name, to_string(tensor.shape),
                                  wanted));
  }
  return tensor;
}

Status read_metadata(const Json& json, SafetensorsMetadata& metadata) {
  if (!json.is_object()) {
    return bad_header(
        fmt::format("{} is {}, an object of texts is wanted", kMetadataName, describe(json)));
  }
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      return bad_header(fmt::format("{}: \"{}\" is {}, a text is wanted", kMetadataName,
                                    printable(key), describe(value)));
    }
    metadata.emplace(key, value.get<std::string>());
  }
  return {};
}

// Sorts the tensors by their data, which must be one after another from 0 to the end.
Status check_tiling(std::vector<SafetensorsTensor>& tensors, std::uint64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t place = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.begin != place) {
      return bad_layout(fmt::format("tensor \"{}\" begins at {} where {} is wanted: {}",
                                    printable(tensor.name), tensor.begin, place,
                                    tensor.begin < place ? "it overlaps the one before it"
                                                         : "the bytes before it belong to none"));
    }
    place = tensor.end;
  }
  if (place != data_bytes) {
    return bad_layout(fmt::format("{} bytes of data, the tensors end at {}", data_bytes, place));
  }
  return {};
}

// The JSON text of the header, once its length is known to be in the file, in the prefix and under
// the limit.
Result<std::string_view> header_text(ByteView prefix, std::uint64_t file_bytes,
                                     std::uint64_t limit) {
  if (file_bytes < kLengthBytes || prefix.size() < kLengthBytes) {
    return bad_header(fmt::format("the file has {} bytes, 8 for the header's length are wanted",
                                  std::min<std::uint64_t>(file_bytes, prefix.size())));
  }
  const std::uint64_t length = load_le64(prefix);
  if (length > limit) {
    return bad_header(fmt::format("header length {} is over the limit {}", length, limit));
  }
  const std::uint64_t there = std::min<std::uint64_t>(file_bytes, prefix.size()) - kLengthBytes;
  if (length > there) {
    return bad_header(
        fmt::format("header length {} where {} bytes follow the length", length, there));
  }
  const std::string_view text = as_text(prefix.subspan(kLengthBytes, length));
  if (!text.starts_with('{')) {
    return bad_header(
        fmt::format("the header begins with \"{}\", {{ is wanted", printable(text.substr(0, 4))));
  }
  return text;
}

}  // namespace

std::string_view to_string(Dtype dtype) {
  return row_of(dtype).name;
}

std::size_t size_in_bytes(Dtype dtype) {
  return row_of(dtype).bytes;
}

Result<SafetensorsHeader> parse_safetensors_header(ByteView prefix, std::uint64_t file_bytes,
                                                   const SafetensorsLimits& limits) {
  MUSTER_TRY(const std::string_view text, header_text(prefix, file_bytes, limits.header_bytes));
  Result<Json> json = parse_json(text, {.bytes = text.size(), .depth = kHeaderDepth});
  if (!json) return with_reason(with_context(std::move(json).error(), "header"), "bad_header");

  SafetensorsHeader header;
  header.data_begin = kLengthBytes + text.size();
  const std::uint64_t data_bytes = file_bytes - header.data_begin;
  for (const auto& [name, entry] : json->items()) {
    if (name == kMetadataName) {
      MUSTER_TRY_STATUS(read_metadata(entry, header.metadata));
      continue;
    }
    if (header.tensors.size() == limits.tensors) {
      return bad_header(fmt::format("the header has more than {} tensors", limits.tensors));
    }
    MUSTER_TRY(SafetensorsTensor tensor, read_entry(name, entry, limits, data_bytes));
    header.tensors.push_back(std::move(tensor));
  }
  MUSTER_TRY_STATUS(check_tiling(header.tensors, data_bytes));
  return header;
}

}  // namespace muster
