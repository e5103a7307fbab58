#include "core/graph/op_support/image.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace muster::ops {
namespace {

constexpr std::int64_t kMostWindow = 65536;

// N or [height, width], each from `low` to kMostWindow.
std::array<std::int64_t, 2> read_pair(JsonObject& attributes, std::string_view key,
                                      const Json& json, std::int64_t low) {
  const auto fits = [&](const Json& value) {
    return value.is_number_integer() && value >= low && value <= kMostWindow;
  };
  if (fits(json)) return {json.get<std::int64_t>(), json.get<std::int64_t>()};
  if (json.is_array() && json.size() == 2 && fits(json[0]) && fits(json[1])) {
    return {json[0].get<std::int64_t>(), json[1].get<std::int64_t>()};
  }
  attributes.fail(key, "found " + describe(json) + ", wanted a whole number from " +
                           std::to_string(low) + " to " + std::to_string(kMostWindow) +
                           ", or [height, width] of such");
  return {1, 1};
}

struct Side {
  std::int64_t out;
  std::int64_t pad;
  std::int64_t padded;
};

Side place_side(std::int64_t size, std::int64_t kernel, std::int64_t stride, bool same,
                std::int64_t padding) {
  Side side{.out = 0, .pad = padding, .padded = 0};
  if (same) {
    side.out = (size + stride - 1) / stride;
    side.pad = std::max<std::int64_t>(0, (side.out - 1) * stride + kernel - size) / 2;
  } else {
    side.out = (size + 2 * padding - kernel) / stride + 1;
  }
  side.padded = (side.out - 1) * stride + kernel;
  return side;
}

}  // namespace

Window read_window(JsonObject& attributes, bool stride_is_kernel) {
  Window window;
  window.kernel = read_pair(attributes, "kernel", attributes.value("kernel"), 1);
  window.stride = stride_is_kernel ? window.kernel : window.stride;
  if (const Json* stride = attributes.find("stride")) {
    window.stride = read_pair(attributes, "stride", *stride, 1);
  }
  const Json* padding = attributes.find("padding");
  if (padding == nullptr || *padding == "valid") return window;
  window.same = *padding == "same";
  if (window.same) return window;
  if (padding->is_string()) {
    attributes.fail("padding", "found " + describe(*padding) +
                                   ", wanted \"same\", \"valid\", a number or [height, width]");
    return window;
  }
  window.padding = read_pair(attributes, "padding", *padding, 0);
  return window;
}

Json to_json(const Window& window) {
  Json json{{"kernel", window.kernel}, {"stride", window.stride}, {"padding", window.padding}};
  if (window.same) json["padding"] = "same";
  return json;
}

Result<ImageWindows> place_windows(std::string_view op, const Shape& input, const Window& window) {
  const std::string name(op);
  if (input.size() != 3) {
    return Error{ErrorCode::kInvalidArgument,
                 name + " wants an image [channels, height, width], got " + to_string(input)};
  }
  std::array<Side, 2> sides{};
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t size = input[d + 1];
    const std::int64_t kernel = window.kernel[d];
    if (!window.same && size + 2 * window.padding[d] < kernel) {
      return Error{ErrorCode::kInvalidArgument,
                   name + " got a " + (d == 0 ? "height" : "width") + " of " +
                       std::to_string(size) + " with " + std::to_string(window.padding[d]) +
                       " zeros on both sides, wanted at least the kernel's " +
                       std::to_string(kernel)};
    }
    if (!window.same && window.padding[d] >= kernel) {
      return Error{ErrorCode::kInvalidArgument,
                   name + " got the padding " + std::to_string(window.padding[d]) +
                       ", wanted less than the kernel's " + std::to_string(kernel)};
    }
    sides[d] = place_side(size, kernel, window.stride[d], window.same, window.padding[d]);
  }
  // The work space holds the padded image.
  MUSTER_TRY_STATUS(element_count({input[0], sides[0].padded, sides[1].padded}));
  return ImageWindows{.out_height = sides[0].out,
                      .out_width = sides[1].out,
                      .pad_top = sides[0].pad,
                      .pad_left = sides[1].pad,
                      .padded_height = sides[0].padded,
                      .padded_width = sides[1].padded};
}

}  // namespace muster::ops
