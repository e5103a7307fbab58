#include "core/graph/presets.h"

#include <gmock/gmock.h>

#include "core/graph/model.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Graph graph_of(const Json& model) {
  const auto resolved = resolve_model(model);
  if (!resolved) throw std::runtime_error(resolved.error().message);
  return *graph_from_model(*resolved);
}

std::int64_t parameters_of(const Json& model) {
  return graph_of(model).layout()->num_elements();
}

std::string error_of(const Json& model) {
  const auto resolved = resolve_model(model);
  return resolved ? "no error" : resolved.error().message;
}

// Weights and biases of a layer, by hand.
constexpr std::int64_t dense(std::int64_t in, std::int64_t out) {
  return in * out + out;
}
constexpr std::int64_t conv(std::int64_t in, std::int64_t out, std::int64_t kernel) {
  return in * out * kernel * kernel;
}
constexpr std::int64_t norm(std::int64_t channels) {
  return 2 * channels;
}
// Four gates, each with weights for input and state and PyTorch's two biases.
constexpr std::int64_t lstm(std::int64_t in, std::int64_t units) {
  return 4 * (in * units + units * units + 2 * units);
}

TEST(Presets, Logistic) {
  EXPECT_EQ(parameters_of({{"preset", "logistic"}}), dense(784, 10));
  EXPECT_EQ(dense(784, 10), 7'850);
}

TEST(Presets, Mlp) {
  constexpr std::int64_t kWanted = dense(784, 128) + dense(128, 64) + dense(64, 10);
  EXPECT_EQ(parameters_of({{"preset", "mlp"}}), kWanted);
  EXPECT_EQ(kWanted, 109'386);
}

TEST(Presets, TwoNn) {
  constexpr std::int64_t kWanted = dense(784, 200) + dense(200, 200) + dense(200, 10);
  EXPECT_EQ(parameters_of({{"preset", "2nn"}}), kWanted);
  EXPECT_EQ(kWanted, 199'210);
}

TEST(Presets, FedavgCnnHasTheParametersOfThePaper) {
  constexpr std::int64_t kWanted =
      conv(1, 32, 5) + 32 + conv(32, 64, 5) + 64 + dense(7 * 7 * 64, 512) + dense(512, 10);
  EXPECT_EQ(kWanted, 1'663'370);
  EXPECT_EQ(parameters_of({{"preset", "fedavg_cnn"}}), kWanted);
  EXPECT_EQ(parameters_of({{"preset", "fedavg_cnn"}, {"input", {1, 28, 28}}}), kWanted);
  EXPECT_EQ(parameters_of({{"preset", "fedavg_cnn"}, {"input", {3, 32, 32}}}),
            conv(3, 32, 5) + 32 + conv(32, 64, 5) + 64 + dense(8 * 8 * 64, 512) + dense(512, 10));
}

TEST(Presets, Lenet5) {
  constexpr std::int64_t kWanted = conv(1, 6, 5) + 6 + conv(6, 16, 5) + 16 +
                                   dense(5 * 5 * 16, 120) + dense(120, 84) + dense(84, 10);
  EXPECT_EQ(kWanted, 61'706);
  EXPECT_EQ(parameters_of({{"preset", "lenet5"}}), kWanted);
}

TEST(Presets, Resnet8WithGroupNorm) {
  constexpr std::int64_t kBehindTheFirst =
      norm(16) +                                                                              //
      conv(16, 16, 3) + norm(16) + conv(16, 16, 3) + norm(16) +                               //
      conv(16, 32, 3) + norm(32) + conv(32, 32, 3) + norm(32) + conv(16, 32, 1) + norm(32) +  //
      conv(32, 64, 3) + norm(64) + conv(64, 64, 3) + norm(64) + conv(32, 64, 1) + norm(64) +  //
      dense(64, 10);
  EXPECT_EQ(parameters_of({{"preset", "resnet8_gn"}}), conv(1, 16, 3) + kBehindTheFirst);
  EXPECT_EQ(conv(1, 16, 3) + kBehindTheFirst, 77'754);
  const Graph on_colour = graph_of({{"preset", "resnet8_gn"}, {"input", {3, 32, 32}}});
  EXPECT_EQ(on_colour.layout()->num_elements(), conv(3, 16, 3) + kBehindTheFirst);
  EXPECT_EQ(conv(3, 16, 3) + kBehindTheFirst, 78'042);
  EXPECT_EQ(on_colour.node(on_colour.find("layer3.relu2")).shape(), (Shape{64, 8, 8}));
}

TEST(Presets, CharLstm) {
  const auto wanted = [](std::int64_t vocabulary) {
    return vocabulary * 8 + lstm(8, 256) + lstm(256, 256) + dense(256, vocabulary);
  };
  EXPECT_EQ(wanted(98), 824'690);
  EXPECT_EQ(wanted(256), 866'560);
  const Graph graph = graph_of({{"preset", "char_lstm"}});
  EXPECT_EQ(graph.layout()->num_elements(), wanted(98));
  EXPECT_EQ(graph.output_shape(), (Shape{80, 98}));
  EXPECT_EQ(graph.loss().targets_per_example(), 80);
  const Graph bytes = graph_of({{"preset", "char_lstm"}, {"vocabulary", 256}, {"window", 20}});
  EXPECT_EQ(bytes.layout()->num_elements(), wanted(256));
  EXPECT_EQ(bytes.output_shape(), (Shape{20, 256}));
}

TEST(Presets, AllAreInTheTableAndResolveToThemselvesAgain) {
  EXPECT_EQ(presets().size(), 7U);
  for (const Preset& preset : presets()) {
    SCOPED_TRACE(preset.name);
    const auto model = resolve_model({{"preset", preset.name}});
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(*resolve_model(*model), *model);
  }
}

TEST(Presets, MlpTakesItsLayersAndActivation) {
  const Graph graph = graph_of({{"preset", "mlp"},
                                {"input", {4}},
                                {"classes", 3},
                                {"hidden", {5, 6}},
                                {"activation", "tanh"}});
  EXPECT_EQ(graph.layout()->num_elements(), dense(4, 5) + dense(5, 6) + dense(6, 3));
  EXPECT_EQ(graph.node(graph.find("tanh2")).op_name, "tanh");
  EXPECT_EQ(parameters_of({{"preset", "mlp"}, {"hidden", Json::array()}}), dense(784, 10));
}

TEST(Presets, ALossOfOnesOwnAllowsOneOutput) {
  const Graph graph =
      graph_of({{"preset", "mlp"}, {"input", {4}}, {"classes", 1}, {"loss", {{"type", "mse"}}}});
  EXPECT_EQ(graph.output_shape(), (Shape{1}));
  EXPECT_FALSE(graph.loss().wants_labels());
  EXPECT_THAT(error_of({{"preset", "mlp"}, {"classes", 1}}), HasSubstr("model.classes"));
}

TEST(Presets, OptionsAreChecked) {
  const auto options = [](const char* preset, const char* key, Json value) {
    return error_of({{"preset", preset}, {key, std::move(value)}});
  };
  EXPECT_THAT(options("logistic", "hidden", {3}),
              AllOf(HasSubstr("model.hidden"), HasSubstr("unknown field"), HasSubstr("classes")));
  EXPECT_THAT(options("2nn", "classes", 0), HasSubstr("model.classes"));
  EXPECT_THAT(options("2nn", "classes", 1'000'001), HasSubstr("model.classes"));
  EXPECT_THAT(options("2nn", "input", {0}), HasSubstr("model.input"));
  EXPECT_THAT(options("2nn", "input", "x"), HasSubstr("model.input"));
  EXPECT_THAT(options("mlp", "hidden", 3), HasSubstr("model.hidden"));
  EXPECT_THAT(options("mlp", "hidden", {3, 0}), HasSubstr("model.hidden"));
  EXPECT_THAT(options("mlp", "hidden", {3, 2.5}), HasSubstr("model.hidden"));
  EXPECT_THAT(options("mlp", "hidden", Json(std::vector<int>(65, 1))), HasSubstr("model.hidden"));
  EXPECT_THAT(options("mlp", "hidden", Json::array({18446744073709551615U})),
              HasSubstr("model.hidden"));
  EXPECT_THAT(options("mlp", "activation", "swish"),
              AllOf(HasSubstr("model.activation"), HasSubstr("swish"), HasSubstr("relu")));
  EXPECT_THAT(options("fedavg_cnn", "input", {784}),
              AllOf(HasSubstr("model.input"), HasSubstr("[channels, height, width]")));
  EXPECT_THAT(options("fedavg_cnn", "input", 28), HasSubstr("model.input"));
  EXPECT_THAT(options("fedavg_cnn", "input", {-1, 28}), HasSubstr("model.input"));
  EXPECT_THAT(options("resnet8_gn", "num_groups", 3), HasSubstr("model.num_groups"));
  EXPECT_THAT(options("char_lstm", "vocabulary", 1), HasSubstr("model.vocabulary"));
  EXPECT_THAT(options("char_lstm", "window", 0), HasSubstr("model.window"));
  EXPECT_THAT(options("char_lstm", "classes", 3), HasSubstr("unknown field"));
  EXPECT_THAT(options("2nn", "loss", "mse"), HasSubstr("model.loss"));
  EXPECT_THAT(options("2nn", "loss", {{"type", "mes"}}), HasSubstr("mes"));
}

TEST(Presets, AnErrorListsEachKnownFieldOnce) {
  EXPECT_THAT(error_of({{"preset", "logistic"}, {"clases", 3}}),
              HasSubstr("known: classes, input, loss, preset"));
  EXPECT_THAT(error_of({{"preset", "mlp"}, {"activation", "relu"}, {"clases", 3}}),
              HasSubstr("known: activation, classes, hidden, input, loss, preset"));
}

// An image too small for the layers is refused where it gets too small.
TEST(Presets, AnImageTooSmallNamesTheNode) {
  EXPECT_THAT(error_of({{"preset", "lenet5"}, {"input", {4, 4}}}), HasSubstr("conv2"));
}

}  // namespace
}  // namespace muster
