#include "core/aggregate/encoding/encode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "core/aggregate/encoding/bodies.h"
#include "core/aggregate/encoding/body.h"
#include "core/aggregate/encoding/rounding.h"
#include "core/base/random.h"
#include "core/base/zstd.h"
#include "core/tensor/kernels/kernels.h"

namespace muster {
namespace {

using Format = UpdateEncoding::Format;

Error not_encodable(const std::string& what) {
  return {ErrorCode::kFailedPrecondition, what, "not_encodable"};
}

// The error for an element that `format` cannot hold.
Error cannot_hold(const StateLayout& layout, std::int64_t element, float value, const char* what) {
  for (const TensorSpec& spec : layout.tensors()) {
    if (element < spec.offset || element >= spec.offset + spec.size) continue;
    return not_encodable(fmt::format("tensor \"{}\" has {} at element {}, which {} cannot hold",
                                     printable(spec.name), value, element - spec.offset, what));
  }
  return not_encodable(fmt::format("{} cannot hold {}", what, value));
}

// What is to be sent: the state, or its change and what the updates before left out.
Result<StateDict> wanted_values(const UpdateEncoding& encoding, const StateDict& global,
                                const StateDict& trained, const StateDict* residual) {
  StateDict values = trained.clone();
  const auto out = values.values();
  if (encoding.content == UpdateContent::kDelta) {
    const auto from = global.values();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] -= from[i];
  }
  if (encoding.format == Format::kTopK && residual != nullptr) {
    const auto left = residual->values();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += left[i];
  }
  if (const std::int64_t at = find_non_finite(out); at >= 0) {
    return cannot_hold(values.layout(), at, out[static_cast<std::size_t>(at)], "an update");
  }
  return values;
}

// A body with its header; the data is to be filled in.
struct Draft {
  Bytes bytes;
  std::vector<SafetensorsTensor> tensors;
  std::size_t data = 0;

  std::byte* at(std::uint64_t offset) { return bytes.data() + data + offset; }
};

Result<Draft> draft_of(const UpdateEncoding& encoding, const StateLayout& layout) {
  Draft draft;
  draft.tensors = update_body::tensors_of(encoding, layout);
  for (const SafetensorsTensor& tensor : draft.tensors) {
    if (Status named = check_tensor_name(tensor.name); !named) {
      return not_encodable("the body has no place for a tensor: " + named.error().message);
    }
  }
  const std::string header = safetensors_header(draft.tensors);
  draft.data = header.size();
  draft.bytes.resize(header.size() + (draft.tensors.empty() ? 0 : draft.tensors.back().end));
  std::memcpy(draft.bytes.data(), header.data(), header.size());
  return draft;
}

// The functions below fill in the data and leave in `values` what a reader gets.

Status encode_halves(Draft& draft, StateDict& values, Dtype dtype) {
  const auto x = values.values();
  const auto round = dtype == Dtype::kF16 ? to_half : to_bfloat;
  const auto infinity = dtype == Dtype::kF16 ? kHalfInfinity : kBfloatInfinity;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint16_t bits = round(x[i]);
    if ((bits & 0x7fff) >= infinity) {
      return cannot_hold(values.layout(), static_cast<std::int64_t>(i), x[i],
                         dtype == Dtype::kF16 ? "float16" : "bfloat16");
    }
    std::memcpy(draft.at(2 * i), &bits, sizeof(bits));
  }
  decode_floats(dtype, draft.at(0), values.layout().num_elements(), x.data());
  return {};
}

void encode_int8(Draft& draft, StateDict& values, std::uint64_t seed) {
  Random random(derive_seed(seed, {"encoding"}));
  const std::vector<TensorSpec>& tensors = values.layout().tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto x = values.tensor(tensors[i]);
    float largest = 0;
    for (const float value : x) largest = std::max(largest, std::abs(value));
    const float scale = int8_scale(largest);
    std::memcpy(draft.at(draft.tensors[tensors.size() + i].begin), &scale, sizeof(scale));
    auto* q = reinterpret_cast<std::int8_t*>(draft.at(draft.tensors[i].begin));
    for (std::size_t k = 0; k < x.size(); ++k) {
      q[k] = to_int8(x[k], scale, scale == 0 ? 0 : random.uniform());
    }
    kernels::best().int8_to_float(tensors[i].size, scale, q, x.data());
  }
}

// Gives what is left out.
Result<StateDict> encode_top_k(Draft& draft, StateDict& values, double fraction) {
  const auto x = values.values();
  if (x.size() > std::numeric_limits<std::uint32_t>::max()) {
    return not_encodable(
        fmt::format("top_k: the model has {} elements, its indices reach 2^32 - 1", x.size()));
  }
  const auto count =
      static_cast<std::size_t>(top_k_count(fraction, values.layout().num_elements()));
  StateDict left = values.clone();
  const auto rest = left.values();
  std::fill(x.begin(), x.end(), 0.0F);
  std::size_t sent = 0;
  for_each_largest(rest, count, [&](std::size_t i) {
    const auto index = static_cast<std::uint32_t>(i);
    std::memcpy(draft.at(4 * sent), &index, sizeof(index));
    std::memcpy(draft.at(4 * (count + sent)), &rest[i], sizeof(float));
    x[i] = rest[i];
    rest[i] = 0;
    ++sent;
  });
  return left;
}

}  // namespace

Result<EncodedUpdate> encode_update(const UpdateEncoding& encoding, const StateDict& global,
                                    const StateDict& trained, const StateDict* residual,
                                    std::uint64_t seed) {
  MUSTER_TRY_STATUS(check_same_layout(global.layout(), trained.layout()));
  if (residual != nullptr) {
    if (Status same = check_same_layout(global.layout(), residual->layout()); !same) {
      return with_context(std::move(same).error(), "residual");
    }
  }
  MUSTER_TRY(StateDict values, wanted_values(encoding, global, trained, residual));
  MUSTER_TRY(Draft draft, draft_of(encoding, values.layout()));
  std::optional<StateDict> left;
  switch (encoding.format) {
    case Format::kFloat32:
      if (!values.values().empty()) {
        std::memcpy(draft.at(0), values.values().data(), values.values().size_bytes());
      }
      break;
    case Format::kFloat16:
    case Format::kBFloat16:
      MUSTER_TRY_STATUS(encode_halves(draft, values, update_body::dtype_of(encoding.format)));
      break;
    case Format::kInt8:
      encode_int8(draft, values, seed);
      break;
    case Format::kTopK: {
      MUSTER_TRY(left, encode_top_k(draft, values, encoding.fraction));
      break;
    }
  }
  if (encoding.compressed) {
    MUSTER_TRY(draft.bytes, zstd_compress(draft.bytes, static_cast<int>(encoding.level)));
  }
  // The server adds changes to the state that they were made from.
  if (encoding.content == UpdateContent::kDelta) {
    const auto out = values.values();
    const auto from = global.values();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += from[i];
  }
  return EncodedUpdate{
      .body = std::move(draft.bytes), .sent = std::move(values), .residual = std::move(left)};
}

}  // namespace muster
