#include "core/graph/op_support/pooling.h"

#include <string>

namespace muster::ops {

Result<Pooling> read_pooling(std::string_view op, JsonObject& attributes, const Shape& input) {
  const Window window = read_window(attributes, true);
  for (std::size_t d = 0; d < 2 && !window.same; ++d) {
    if (window.padding[d] <= window.kernel[d] / 2) continue;
    return Error{ErrorCode::kInvalidArgument,
                 std::string(op) + " got the padding " + std::to_string(window.padding[d]) +
                     ", wanted at most half of the kernel's " + std::to_string(window.kernel[d])};
  }
  MUSTER_TRY(const ImageWindows places, place_windows(op, input, window));
  return Pooling{.window = window,
                 .channels = input[0],
                 .pool = {.height = input[1],
                          .width = input[2],
                          .out_height = places.out_height,
                          .out_width = places.out_width,
                          .kernel_height = window.kernel[0],
                          .kernel_width = window.kernel[1],
                          .stride_height = window.stride[0],
                          .stride_width = window.stride[1],
                          .pad_height = places.pad_top,
                          .pad_width = places.pad_left}};
}

}  // namespace muster::ops
