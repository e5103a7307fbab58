#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/tensor/state.h"

// Windows that slide over images [channels, height, width]: what convolution and pooling share.
namespace muster::ops {

// Pairs are [height, width].
struct Window {
  std::array<std::int64_t, 2> kernel{1, 1};
  std::array<std::int64_t, 2> stride{1, 1};
  // "same": ceil(size / stride) positions, an odd row or column of zeros goes below or to the
  // right. Else the zeros on both sides; "valid" is none.
  bool same = false;
  std::array<std::int64_t, 2> padding{0, 0};
};

// Reads "kernel" (required), "stride" (left out: 1, or the kernel when `stride_is_kernel`) and
// "padding" (left out: none). A number stands for both directions.
Window read_window(JsonObject& attributes, bool stride_is_kernel);
// The three attributes written out.
Json to_json(const Window& window);

// Where a window's positions lie on an image.
struct ImageWindows {
  std::int64_t out_height = 0;
  std::int64_t out_width = 0;
  std::int64_t pad_top = 0;
  std::int64_t pad_left = 0;
  // What the windows cover, pad_top and pad_left included.
  std::int64_t padded_height = 0;
  std::int64_t padded_width = 0;
};

// Errors: kInvalidArgument, naming `op`, for an input that is no image or smaller than the window.
Result<ImageWindows> place_windows(std::string_view op, const Shape& input, const Window& window);

}  // namespace muster::ops
