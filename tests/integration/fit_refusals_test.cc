#include <gmock/gmock.h>

#include <filesystem>

#include "core/base/file.h"
#include "core/tensor/safetensors.h"
#include "tests/support/federation.h"
#include "tests/support/process.h"

// What `muster fit` and `muster model` refuse before they work, and what they do when they cannot
// write to their user.
namespace muster {
namespace {

using muster::testing::Outcome;
using muster::testing::run;
using muster::testing::take;
using muster::testing::TemporaryFolder;
using muster::testing::write_csv;
using ::testing::HasSubstr;

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class FitRefusals : public ::testing::Test {
 protected:
  FitRefusals() {
    train_ = "csv:" + write_csv(folder_.path(), 60, 1).string() + ";target=label";
    job_ = {{"name", "small"},
            {"model", {{"preset", "logistic"}, {"input", {4}}, {"classes", 3}}},
            {"local", {{"epochs", 2}, {"batch_size", 8}}},
            {"data", train_}};
  }

  std::string path(const std::string& name) const { return folder_.path() / name; }
  std::string write(const std::string& name, const std::string& text) const {
    take(write_file_durably(path(name), as_bytes(text)));
    return path(name);
  }
  std::string job_file() const { return write("job.json", job_.dump()); }
  Outcome muster(Words words) const {
    words.insert(words.begin(), MUSTER_BINARY);
    return run(words, folder_.path());
  }
  Outcome fit(Words more = {}, const std::string& out = "out") const {
    Words words{"fit", job_file(), "--out", path(out)};
    words.insert(words.end(), more.begin(), more.end());
    return muster(words);
  }
  // With the shell's redirections, "2>/dev/full".
  Outcome fit_redirected(const std::string& redirections, Words more = {}) const {
    Words words{"/bin/sh",     "-c",       "exec \"$0\" \"$@\" " + redirections,
                MUSTER_BINARY, "fit",      job_file(),
                "--out",       path("out")};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, folder_.path());
  }
  static void expect_refused(const Outcome& outcome, const Words& words) {
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output << outcome.errors;
    for (const std::string& word : words) EXPECT_THAT(outcome.errors, HasSubstr(word));
    EXPECT_EQ(outcome.output, "");
  }

  TemporaryFolder folder_;
  std::string train_;
  Json job_;
};

TEST_F(FitRefusals, AModelThatIsJson) {
  job_["model"] = {{"json", {{"n", 1}}}};
  expect_refused(fit(), {"job.json", "job.model", "JSON state"});
}

TEST_F(FitRefusals, ProgressThatCannotBeShownDoesNotEndTheTraining) {
  ASSERT_EQ(fit().exit_code, 0);
  const std::string good = take(read_file(path("out"), 1 << 20));
  for (const char* redirection : {"2>/dev/full", "2>&-", "0<&- 2>&-"}) {
    SCOPED_TRACE(redirection);
    fs::remove(path("out"));
    fs::remove(path("run"));
    const Outcome outcome = fit_redirected(redirection, {"--checkpoint", path("run")});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_EQ(take(read_file(path("out"), 1 << 20)), good);
    EXPECT_TRUE(fs::exists(path("run")));
  }
}

TEST_F(FitRefusals, ResultsThatCannotBePrintedAreAFailureAndTheStateIsThere) {
  for (const char* redirection : {">/dev/full", ">&-", ">&- 2>/dev/null"}) {
    for (const Words& more : {Words{}, Words{"--json"}}) {
      SCOPED_TRACE(redirection);
      fs::remove(path("out"));
      const Outcome outcome = fit_redirected(redirection, more);
      EXPECT_EQ(outcome.exit_code, 1);
      if (std::string(redirection).find("2>") == std::string::npos) {
        EXPECT_THAT(outcome.errors, HasSubstr("standard output could not be written"));
      }
      EXPECT_TRUE(read_state(take(MappedFile::open(path("out"))).bytes()));
    }
  }
  const Outcome help =
      run({"/bin/sh", "-c", "exec \"$0\" --help >/dev/full", MUSTER_BINARY}, folder_.path());
  EXPECT_EQ(help.exit_code, 1);
}

TEST_F(FitRefusals, AFolderThatCannotBeWrittenIsFoundBeforeTheTraining) {
  const std::string long_name(300, 'x');
  // No file can be made in /proc, by nobody.
  for (const std::string& target : {path(long_name), std::string("/proc/state")}) {
    expect_refused(muster({"fit", job_file(), "--out", target}), {"cannot write", target});
    expect_refused(fit({"--checkpoint", target}), {"cannot write", target});
    expect_refused(muster({"model", "init", "logistic", "-o", target}), {"cannot write", target});
    EXPECT_FALSE(fs::exists(path("out")));
  }
  ASSERT_EQ(fit().exit_code, 0);
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".muster-write")) << entry.path();
}

TEST_F(FitRefusals, WhatWasReadIsNotWrittenOver) {
  ASSERT_EQ(fit({}, "start").exit_code, 0);
  fs::create_directory(path("more"));
  const std::string test = write_csv(path("more"), 30, 2);
  const std::string data = path("data.csv");
  fs::create_symlink(data, path("link"));
  const Words inputs{"--init", path("start"), "--test", "csv:" + test + ";target=label"};
  const std::string before = take(read_file(data, 1 << 20));
  const auto refused = [&](Words more, const std::string& out, const std::string& lost) {
    SCOPED_TRACE(out + " " + lost);
    more.insert(more.end(), inputs.begin(), inputs.end());
    expect_refused(fit(more, out), {"would replace " + lost});
  };
  refused({}, "job.json", "the job");
  refused({}, "more/../job.json", "the job");
  refused({}, "data.csv", "a file of the training data");
  refused({}, "link", "a file of the training data");
  refused({}, "more/data.csv", "a file of the test data");
  refused({}, "start", "the state of --init");
  refused({"--checkpoint", path("job.json")}, "out", "the job");
  refused({"--checkpoint", data}, "out", "a file of the training data");
  refused({"--checkpoint", test}, "out", "a file of the test data");
  refused({"--checkpoint", path("start")}, "out", "the state of --init");
  refused({"--checkpoint", path("new")}, "more/../new", "the checkpoint");
  EXPECT_EQ(take(read_file(data, 1 << 20)), before);
  EXPECT_EQ(fit(inputs).exit_code, 0);
  const std::string job = job_file();
  expect_refused(muster({"model", "init", job, "-o", job}), {"job.json", "is the model itself"});
}

// docs/device-owners.md: `categorical` is for training in one place.
TEST_F(FitRefusals, CategoriesAreThoseOfTheTrainingFileForTheTestFileToo) {
  std::string train = "color,label\n";
  for (int i = 0; i < 40; ++i) train += "blue,0\ngreen,1\nred,2\n";
  write("train.csv", train);
  write("test.csv", "color,label\nred,2\ngreen,1\n");
  job_["model"]["input"] = {3};
  job_["local"] = {{"epochs", 60}, {"batch_size", 8}};
  job_["data"] = "csv:" + path("train.csv") + ";target=label;categorical=color";
  const Words test{"--json", "--test",
                   "csv:" + path("test.csv") + ";target=label;categorical=color"};
  const Outcome outcome = fit(test);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const Json last = take(parse_json(outcome.output)).at("epochs").back();
  EXPECT_EQ(last.at("test").at("accuracy"), 1.0) << last;
  write("test.csv", "color,label\npink,2\n");
  expect_refused(fit(test), {"test data", "pink", "blue, green, red"});
}

TEST_F(FitRefusals, AJobThatAServerWouldRefuseIsRefused) {
  const Json good = job_;
  const auto refused = [&](const char* pointer, const Json& value, const Words& words) {
    SCOPED_TRACE(pointer);
    job_ = good;
    job_[Json::json_pointer(pointer)] = value;
    Words all{"job.json"};
    all.insert(all.end(), words.begin(), words.end());
    expect_refused(fit(), all);
  };
  refused("/name", std::string(49, 'n'), {"job.name", "49"});
  refused("/strategy", 5, {"job.strategy"});
  refused("/strategy/type", "Federatd", {"job.strategy.type"});
  refused("/round/x", 1, {"job.round.x", "unknown field"});
  refused("/evaluation/federated", "x", {"job.evaluation.federated"});
  refused("/evaluation/metrics", nullptr, {"job.evaluation.metrics", "null"});
  refused("/evaluation/test_data", std::string(5000, 'x'), {"job.evaluation.test_data", "5000"});
  Json nodes = Json::array();
  for (int i = 0; i < 9000; ++i)
    nodes.push_back({{"id", "node-with-a-long-name-" + std::to_string(i)}, {"op", "relu"}});
  nodes.push_back({{"id", "fc"}, {"op", "dense"}, {"units", 3}});
  refused("/model",
          {{"graph",
            {{"input", {{"shape", {4}}}},
             {"nodes", nodes},
             {"loss", {{"type", "softmax_cross_entropy"}}}}}},
          {"job.model"});
  // All of it is well: the job can be submitted, and tried.
  job_ = good;
  job_["name"] = std::string(48, 'n');
  job_["strategy"] = {{"type", "Federated"}, {"num_clients", 10}, {"rounds", 3}};
  job_["round"] = {{"target_updates", 5}};
  job_["evaluation"] = {{"federated", false}, {"metrics", {"accuracy"}}};
  EXPECT_EQ(fit().exit_code, 0);
  job_.erase("strategy");
  EXPECT_EQ(fit().exit_code, 0);
}

TEST_F(FitRefusals, AModelOverTheLimitIsRefusedBeforeItsStateIsMade) {
  job_["model"] = {{"preset", "mlp"}, {"input", {4}}, {"hidden", {20'000, 20'000}}};
  expect_refused(fit(), {"job.json", "job.model", "parameters", "268435456"});
  expect_refused(muster({"model", "init", job_file(), "-o", path("out")}),
                 {"job.json", "parameters", "268435456"});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(FitRefusals, ABatchOverTheMemorySaysSizesAndTheCure) {
  std::string csv = "a,label\n";
  for (int i = 0; i < 6000; ++i) csv += "1,0\n2,1\n";
  write("long.csv", csv);
  job_["data"] = "csv:" + path("long.csv") + ";target=label";
  job_["model"] = {{"preset", "mlp"}, {"input", {1}}, {"classes", 2}, {"hidden", {1'000'000}}};
  job_["local"] = {{"batch_size", 10'000}, {"max_steps", 1}};
  expect_refused(fit(), {"4,000,002 parameters", "10,000 examples", "local.batch_size",
                         "local.accumulate", "17.2 GB"});
}

}  // namespace
}  // namespace muster
