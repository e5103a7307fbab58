#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/json.h"

// The models that a job may name instead of writing a graph: "model": {"preset": NAME, ...options}.
//
// Options of all presets for classifying ("char_lstm" has its own):
//   input    shape of an example, default [28, 28]. A preset with convolutions takes
//            [height, width], one channel, or [channels, height, width].
//   classes  2 (1 with a "loss" of one's own) to 1,000,000, default 10
// and of all presets:
//   loss     as in a graph, default {"type": "softmax_cross_entropy"}
//
// Counts of parameters are for the defaults; parameters begin as PyTorch's layers do.
//
// logistic    flatten, dense. 7,850.
// mlp         flatten, then for each of "hidden" (default [128, 64]) dense and "activation" (relu;
//             gelu, leaky_relu, sigmoid, tanh), then dense. 109,386.
// 2nn         flatten, twice dense 200 with relu, dense. McMahan et al. 2017 (Communication-
//             Efficient Learning of Deep Networks from Decentralized Data), section 3. 199,210.
// fedavg_cnn  5x5 convolution of 32, relu, 2x2 maximum, 5x5 of 64, relu, 2x2 maximum, dense 512,
//             relu, dense; "same" padding. McMahan et al. 2017, section 3. 1,663,370.
// lenet5      LeCun et al. 1998 (Gradient-Based Learning Applied to Document Recognition), in the
//             form taught today: relu for tanh, maximum for trainable averages, every map of the
//             second convolution connected to all of the first, softmax for distances. 5x5 of 6
//             with padding 2, 5x5 of 16 without, dense 120, 84 and classes. 61,706.
// resnet8_gn  He et al. 2016 (Deep Residual Learning) at depth 8, with group norm instead of batch
//             norm, which averages badly over devices that see few classes (Hsieh et al. 2020, The
//             Non-IID Data Quagmire). 3x3 convolution of 16; residual blocks of 16, 32, 64 with
//             strides 1, 2, 2 and a 1x1 projection where the shape changes; mean over the image;
//             dense. "num_groups" (1, 2, 4, 8 or 16; default 8). Names as in torchvision. 77,754;
//             78,042 for [3, 32, 32].
// char_lstm   The next character at each place of a window: embedding of 8, two LSTM layers of 256,
//             dense. McMahan et al. 2017, section 3, and LEAF (Caldas et al. 2018). "vocabulary"
//             (2 to 1,000,000; default 98, the text data format's own) and "window" (1 to 100,000,
//             default 80). 824,690; with all 256 bytes 866,560 (the paper counts 866,578).
namespace muster {

struct Preset {
  std::string_view name;
  std::string_view about;  // in half a line, for lists
  // Reads the options (the caller refuses the rest) and returns {"input", "nodes"} of a graph.
  Json (*build)(JsonObject& options);
};

std::span<const Preset> presets();

// The graph, as JSON that is not yet canonical, that {"preset": NAME, ...options} stands for.
// Errors: kInvalidArgument, reason "bad_field": an unknown preset lists the known ones, an unknown
// option those of the preset.
Result<Json> graph_of_preset(const Json& model, const std::string& where);

}  // namespace muster
