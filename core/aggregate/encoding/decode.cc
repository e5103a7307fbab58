#include "core/aggregate/encoding/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/aggregate/encoding/bodies.h"
#include "core/aggregate/encoding/body.h"
#include "core/base/scratch_file.h"
#include "core/base/zstd.h"

namespace muster {
namespace {

using Format = UpdateEncoding::Format;
using Tensors = std::vector<SafetensorsTensor>;

Error refused(std::string message, std::string reason) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(reason)};
}

Result<LayoutPtr> layout_of(const Tensors& tensors) {
  std::vector<StateLayout::Entry> entries;
  entries.reserve(tensors.size());
  for (const SafetensorsTensor& tensor : tensors) entries.push_back({tensor.name, tensor.shape});
  return StateLayout::create(std::move(entries));
}

std::vector<const SafetensorsTensor*> by_name(const Tensors& tensors) {
  std::vector<const SafetensorsTensor*> sorted;
  sorted.reserve(tensors.size());
  for (const SafetensorsTensor& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->name < b->name; });
  return sorted;
}

// Names and shapes are those wanted; the dtypes come after.
Status check_tensors(const Tensors& wanted, const Tensors& found) {
  MUSTER_TRY(const LayoutPtr wanted_layout, layout_of(wanted));
  MUSTER_TRY(const LayoutPtr found_layout, layout_of(found));
  MUSTER_TRY_STATUS(check_same_layout(*wanted_layout, *found_layout));
  // Both have the same names, but each in the order of its data.
  const std::vector<const SafetensorsTensor*> wanted_by_name = by_name(wanted);
  const std::vector<const SafetensorsTensor*> found_by_name = by_name(found);
  for (std::size_t i = 0; i < wanted_by_name.size(); ++i) {
    const SafetensorsTensor& tensor = *found_by_name[i];
    if (tensor.dtype == wanted_by_name[i]->dtype) continue;
    return refused(fmt::format("tensor \"{}\" has dtype {}, {} is wanted", printable(tensor.name),
                               to_string(tensor.dtype), to_string(wanted_by_name[i]->dtype)),
                   "dtype_mismatch");
  }
  return {};
}

SafetensorsLimits limits_of(const std::string& canonical, const Tensors& wanted) {
  SafetensorsLimits limits;
  limits.header_bytes = canonical.size() + update_body::kHeaderSlack;
  limits.tensors = std::max(limits.tensors, wanted.size());
  return limits;
}

// Where the data begins in a file with exactly the canonical header.
Result<std::size_t> check_canonical(ByteView file, const Tensors& wanted) {
  const std::string header = safetensors_header(wanted);
  const std::uint64_t data = wanted.empty() ? 0 : wanted.back().end;
  if (file.size() == header.size() + data && as_text(file).starts_with(header)) {
    return header.size();
  }
  // What is wrong with it in substance comes before the form.
  MUSTER_TRY(const SafetensorsHeader found,
             parse_safetensors_header(file, file.size(), limits_of(header, wanted)));
  MUSTER_TRY_STATUS(check_tensors(wanted, found.tensors));
  return refused(
      "the header is not in canonical form (tensors in order of name, no metadata, data at a "
      "multiple of 64 bytes)",
      "bad_header");
}

Result<ValuesPtr> open_floats(MappedFile file, const UpdateEncoding& encoding,
                              const LayoutPtr& layout) {
  const Tensors wanted = update_body::tensors_of(encoding, *layout);
  const std::string canonical = safetensors_header(wanted);
  const ByteView bytes = file.bytes();
  if (as_text(bytes).starts_with(canonical) &&
      bytes.size() == canonical.size() + (wanted.empty() ? 0 : wanted.back().end)) {
    const std::vector<FloatPiece> all{{0, layout->num_elements(), canonical.size()}};
    return make_float_body(std::move(file), layout, update_body::dtype_of(encoding.format), all);
  }
  MUSTER_TRY(const SafetensorsHeader header,
             parse_safetensors_header(bytes, bytes.size(), limits_of(canonical, wanted)));
  MUSTER_TRY_STATUS(check_tensors(wanted, header.tensors));
  std::vector<FloatPiece> pieces;
  for (const SafetensorsTensor& tensor : header.tensors) {
    const TensorSpec* spec = layout->find(tensor.name);
    pieces.push_back(
        {spec->offset, spec->size, static_cast<std::size_t>(header.data_begin + tensor.begin)});
  }
  return make_float_body(std::move(file), layout, update_body::dtype_of(encoding.format),
                         std::move(pieces));
}

Result<ValuesPtr> open_int8(MappedFile file, const UpdateEncoding& encoding,
                            const LayoutPtr& layout) {
  MUSTER_TRY(const std::size_t data,
             check_canonical(file.bytes(), update_body::tensors_of(encoding, *layout)));
  const std::byte* at = file.bytes().data() + data + layout->num_elements();
  std::vector<float> scales;
  scales.reserve(layout->tensors().size());
  for (const TensorSpec& spec : layout->tensors()) {
    float scale = 0;
    std::memcpy(&scale, at, sizeof(scale));
    at += sizeof(scale);
    if (!(scale >= 0) || std::signbit(scale) || !std::isfinite(127.0F * scale)) {
      return refused(fmt::format("tensor \"{}{}\" is {}, a finite number from 0 is wanted, of "
                                 "which 127 times is finite too",
                                 update_body::kScale, printable(spec.name), scale),
                     "non_finite");
    }
    scales.push_back(scale);
  }
  return make_int8_body(std::move(file), layout, data, std::move(scales));
}

// The places of make_top_k_body.
Result<std::vector<std::int64_t>> check_indices(ByteView indices, std::int64_t count,
                                                std::int64_t elements) {
  std::vector<std::int64_t> places;
  std::int64_t before = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t index = 0;
    std::memcpy(&index, indices.data() + 4 * i, sizeof(index));
    if (index <= before || index >= elements) {
      return refused(
          fmt::format("tensor \"indices\" has {} at element {}, after {}: rising numbers below {} "
                      "are wanted",
                      index, i, before, elements),
          "bad_indices");
    }
    before = index;
    while (std::ssize(places) * kTopKStretch <= index) places.push_back(i);
  }
  while ((std::ssize(places) - 1) * kTopKStretch < elements) places.push_back(count);
  return places;
}

Result<ValuesPtr> open_top_k(MappedFile file, const UpdateEncoding& encoding,
                             const LayoutPtr& layout) {
  MUSTER_TRY(const std::size_t data,
             check_canonical(file.bytes(), update_body::tensors_of(encoding, *layout)));
  MUSTER_TRY(std::vector<std::int64_t> places,
             check_indices(file.bytes().subspan(data),
                           top_k_count(encoding.fraction, layout->num_elements()),
                           layout->num_elements()));
  return make_top_k_body(std::move(file), layout, data, std::move(places));
}

Result<MappedFile> unpack(const MappedFile& file, const UpdateEncoding& encoding,
                          const StateLayout& layout, const std::filesystem::path& scratch) {
  MUSTER_TRY(ScratchFile unpacked, ScratchFile::create(scratch));
  MUSTER_TRY_STATUS(zstd_unpack(file.bytes(),
                                encoded_bytes(encoding, layout) + update_body::kHeaderSlack,
                                [&](ByteView piece) { return unpacked.append(piece); }));
  return std::move(unpacked).map();
}

}  // namespace

Result<ValuesPtr> open_update(MappedFile file, const UpdateEncoding& encoding,
                              const LayoutPtr& layout, const std::filesystem::path& scratch) {
  if (encoding.compressed) {
    MUSTER_TRY(file, unpack(file, encoding, *layout, scratch));
  }
  switch (encoding.format) {
    case Format::kInt8:
      return open_int8(std::move(file), encoding, layout);
    case Format::kTopK:
      return open_top_k(std::move(file), encoding, layout);
    case Format::kFloat32:
    case Format::kFloat16:
    case Format::kBFloat16:
      break;
  }
  return open_floats(std::move(file), encoding, layout);
}

}  // namespace muster
