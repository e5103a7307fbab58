#include <gmock/gmock.h>

#include <bit>
#include <limits>

#include "core/base/file.h"
#include "core/tensor/safetensors.h"
#include "tests/support/federation.h"
#include "tests/support/process.h"

// `muster model show` and `muster model init`, the program itself.
namespace muster {
namespace {

using muster::testing::Outcome;
using muster::testing::run;
using muster::testing::take;
using muster::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ModelShow : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() / name; }
  std::string write(const std::string& name, const std::string& text) const {
    take(write_file_durably(path(name), as_bytes(text)));
    return path(name);
  }
  Outcome model(std::vector<std::string> words) const {
    words.insert(words.begin(), {MUSTER_BINARY, "model"});
    return run(words, folder_.path());
  }
  Json json(const std::string& source, const std::string& batch = "32") const {
    const Outcome outcome = model({"show", source, "--batch", batch, "--json"});
    if (outcome.exit_code != 0) throw std::runtime_error(outcome.errors);
    return take(parse_json(outcome.output, {.bytes = 1 << 22, .depth = 32}));
  }

  TemporaryFolder folder_;
};

TEST_F(ModelShow, APresetShowsItsNodesAndTotals) {
  const Outcome outcome = model({"show", "2nn"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("NODE"), HasSubstr("MULTIPLY-ADDS"), HasSubstr("relu1"),
                    HasSubstr("157,000"), HasSubstr("199,210"), HasSubstr("batches of 32")));
  const Json shown = json("2nn", "64");
  EXPECT_EQ(shown.at("nodes").size(), 6U);
  EXPECT_EQ(shown.at("parameters"), 199'210);
  EXPECT_EQ(shown.at("multiply_adds"), 784 * 200 + 200 * 200 + 200 * 10);
  EXPECT_EQ(shown.at("batch"), 64);
  EXPECT_GT(shown.at("workspace_bytes"), json("2nn", "10").at("workspace_bytes"));
}

TEST_F(ModelShow, AJobAModelAndAGraphShowTheSame) {
  const Json preset{{"preset", "logistic"}, {"input", {4}}, {"classes", 3}};
  const Json of_preset = json(write("model.json", preset.dump()));
  const Json of_job = json(write("job.json", Json{{"name", "x"}, {"model", preset}}.dump()));
  EXPECT_EQ(of_job, of_preset);
  EXPECT_EQ(of_job.at("parameters"), 15);
  const Json& graph = of_job.at("model").at("graph");
  EXPECT_EQ(json(write("graph.json", graph.dump())), of_preset);
}

TEST_F(ModelShow, ErrorsNameTheFileAndTheNode) {
  const auto refused = [&](const std::string& source) {
    const Outcome outcome = model({"show", source});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
    return outcome.errors;
  };
  const Json graph{{"input", {{"shape", {4}}}},
                   {"nodes",
                    {{{"id", "first"}, {"op", "dense"}, {"units", 3}},
                     {{"id", "second"}, {"op", "dense"}, {"units", -3}}}},
                   {"loss", {{"type", "softmax_cross_entropy"}}}};
  EXPECT_THAT(refused(write("graph.json", graph.dump())),
              AllOf(HasSubstr("graph.json"), HasSubstr("second"), HasSubstr("units")));
  EXPECT_THAT(refused("lenet6"), AllOf(HasSubstr("lenet6"), HasSubstr("lenet5")));
  EXPECT_THAT(refused(write("list.json", "[1]")), HasSubstr("list.json"));
  EXPECT_THAT(refused(write("cut.json", "{\"model\"")), HasSubstr("cut.json"));
  EXPECT_THAT(refused(folder_.path()), HasSubstr(folder_.path().string()));
  EXPECT_EQ(model({"show", "2nn", "--batch", "0"}).exit_code, 2);
}

TEST_F(ModelShow, ABatchOverTheTrainersLimitIsShownAndMarked) {
  const Outcome outcome = model({"show", "fedavg_cnn", "--batch", "1000000"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("conv1"), HasSubstr(" !\n"),
                                    HasSubstr("over the trainer's limit of 17.2 GB")));
  EXPECT_EQ(json("fedavg_cnn", "1000000").at("over_limit"), true);
  EXPECT_EQ(json("fedavg_cnn").at("over_limit"), false);
  EXPECT_THAT(model({"show", "fedavg_cnn"}).output, Not(HasSubstr("!")));
}

TEST_F(ModelShow, AStateShowsItsTensors) {
  const LayoutPtr layout =
      take(StateLayout::create({{"fc.bias", {3}}, {"fc.weight", {3, 2}}, {"none", {0}}}));
  StateDict state(layout);
  std::ranges::copy(std::array{1.0F, -2.0F, 4.0F}, state.tensor("fc.bias").begin());
  state.tensor("fc.weight")[1] = std::numeric_limits<float>::quiet_NaN();
  take(write_file_durably(path("s.safetensors"), write_state(state)));
  const Json shown = json(path("s.safetensors"));
  ASSERT_EQ(shown.at("tensors").size(), 3U);
  const Json& bias = shown.at("tensors")[0];
  EXPECT_EQ(bias.at("name"), "fc.bias");
  EXPECT_EQ(bias.at("shape"), Json::array({3}));
  EXPECT_EQ(bias.at("min"), -2.0);
  EXPECT_EQ(bias.at("max"), 4.0);
  EXPECT_EQ(bias.at("mean"), 1.0);
  EXPECT_EQ(shown.at("tensors")[1].at("not_finite"), 1);
  EXPECT_TRUE(shown.at("tensors")[2].at("mean").is_null());
  EXPECT_EQ(shown.at("digest"), state_digest(state).hex());
  EXPECT_EQ(shown.at("file_digest"), shown.at("digest"));
  const Outcome table = model({"show", path("s.safetensors")});
  EXPECT_THAT(table.output, AllOf(HasSubstr("fc.weight"), HasSubstr("3 x 2"), HasSubstr("SHA-256"),
                                  HasSubstr(state_digest(state).hex())));
}

TEST_F(ModelShow, ADamagedStateIsRefusedByName) {
  take(write_file_durably(path("s.safetensors"), as_bytes("\x08")));
  const Outcome outcome = model({"show", path("s.safetensors")});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("s.safetensors"));
}

TEST_F(ModelShow, InitWritesTheStateThatTheSeedGives) {
  const auto init = [&](const char* seed, const char* file) {
    const Outcome outcome = model({"init", "logistic", "--seed", seed, "-o", path(file), "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return take(parse_json(outcome.output)).at("state").get<std::string>();
  };
  const std::string first = init("1", "a.safetensors");
  EXPECT_EQ(init("1", "b.safetensors"), first);
  EXPECT_NE(init("2", "c.safetensors"), first);
  EXPECT_EQ(json(path("a.safetensors")).at("digest"), first);
  EXPECT_EQ(json(path("a.safetensors")).at("elements"), 7850);
  EXPECT_EQ(model({"init", "logistic", "-o", folder_.path()}).exit_code, 2);
}

TEST_F(ModelShow, AModelThatIsJsonIsShownAsItBeginsAndWrittenAsAState) {
  const std::string file =
      write("s.json", R"({"model": {"statistics": {"features": 2, "classes": 3}}})");
  const Json shown = json(file);
  EXPECT_EQ(shown.at("numbers"), 7);
  EXPECT_EQ(shown.at("model").at("json").at("mean"), Json({0.0, 0.0}));
  const Outcome text = model({"show", file});
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_THAT(text.output, AllOf(HasSubstr("label_share"), HasSubstr("numbers        7")));
  ASSERT_EQ(model({"init", file, "-o", path("s.safetensors")}).exit_code, 0);
  EXPECT_EQ(json(path("s.safetensors")).at("elements"), 21);
  const Outcome bad = model({"show", write("bad.json", R"({"json": {"n": [9007199254740993]}})")});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.errors, HasSubstr("/n/0"));
}

}  // namespace
}  // namespace muster
