#include "core/aggregate/encoding/body.h"

namespace muster::update_body {
namespace {

using Format = UpdateEncoding::Format;

// Appends a tensor after those that are there.
void add(std::vector<SafetensorsTensor>& tensors, std::string name, Dtype dtype, Shape shape,
         std::int64_t size) {
  const std::uint64_t begin = tensors.empty() ? 0 : tensors.back().end;
  tensors.push_back({.name = std::move(name),
                     .dtype = dtype,
                     .shape = std::move(shape),
                     .begin = begin,
                     .end = begin + static_cast<std::uint64_t>(size) * size_in_bytes(dtype)});
}

}  // namespace

Dtype dtype_of(Format format) {
  switch (format) {
    case Format::kFloat16:
      return Dtype::kF16;
    case Format::kBFloat16:
      return Dtype::kBF16;
    case Format::kInt8:
      return Dtype::kI8;
    case Format::kFloat32:
    case Format::kTopK:
      break;
  }
  return Dtype::kF32;
}

std::vector<SafetensorsTensor> tensors_of(const UpdateEncoding& encoding,
                                          const StateLayout& layout) {
  std::vector<SafetensorsTensor> tensors;
  const Dtype dtype = dtype_of(encoding.format);
  if (encoding.format == Format::kTopK) {
    const std::int64_t count = top_k_count(encoding.fraction, layout.num_elements());
    add(tensors, "indices", Dtype::kU32, {count}, count);
    add(tensors, "values", dtype, {count}, count);
    return tensors;
  }
  const bool quantised = encoding.format == Format::kInt8;
  for (const TensorSpec& spec : layout.tensors()) {
    add(tensors, (quantised ? kQuantised : "") + spec.name, dtype, spec.shape, spec.size);
  }
  if (!quantised) return tensors;
  for (const TensorSpec& spec : layout.tensors()) {
    add(tensors, kScale + spec.name, Dtype::kF32, {}, 1);
  }
  return tensors;
}

}  // namespace muster::update_body
