#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <thread>

#include "core/base/file.h"
#include "core/tensor/safetensors.h"
#include "tests/support/federation.h"
#include "tests/support/process.h"

// `muster fit`, the program itself, on a small data set in three classes.
namespace muster {
namespace {

using muster::testing::Outcome;
using muster::testing::Process;
using muster::testing::run;
using muster::testing::take;
using muster::testing::TemporaryFolder;
using muster::testing::write_csv;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Until the first epoch is done, or the process has ended.
void wait_for_epoch(Process& process) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (process.running() && process.errors().find("epoch") == std::string::npos) {
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("no epoch in 60 s");
    std::this_thread::yield();
  }
}

class Fit : public ::testing::Test {
 protected:
  Fit() {
    fs::create_directory(path("test"));
    train_ = "csv:" + write_csv(folder_.path(), 300, 1).string() + ";target=label";
    test_ = "csv:" + write_csv(path("test"), 90, 2).string() + ";target=label";
    job_ = {{"name", "small"},
            {"model", {{"preset", "logistic"}, {"input", {4}}, {"classes", 3}}},
            {"local",
             {{"epochs", 4}, {"batch_size", 8}, {"optimizer", {{"type", "sgd"}, {"lr", 0.1}}}}},
            {"data", train_},
            {"evaluation", {{"test_data", test_}}},
            {"seed", 1}};
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }
  std::string job_file() const {
    take(write_file_durably(path("job.json"), as_bytes(job_.dump())));
    return path("job.json");
  }
  Words call(Words more = {}, const std::string& out = "out.safetensors") const {
    Words words{MUSTER_BINARY, "fit", job_file(), "--out", path(out)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Outcome fit(Words more = {}, const std::string& out = "out.safetensors") const {
    return run(call(std::move(more), out), folder_.path());
  }
  Json fit_json(Words more = {}, const std::string& out = "out.safetensors") const {
    more.emplace_back("--json");
    const Outcome outcome = fit(std::move(more), out);
    if (outcome.exit_code != 0) throw std::runtime_error(outcome.errors);
    return take(parse_json(outcome.output));
  }
  // Nothing was written, and the message has all of `words`.
  void expect_refused(const Outcome& outcome, const Words& words) const {
    EXPECT_EQ(outcome.exit_code, 2) << outcome.errors;
    for (const std::string& word : words) EXPECT_THAT(outcome.errors, HasSubstr(word));
    EXPECT_EQ(outcome.output, "");
    EXPECT_FALSE(fs::exists(path("out.safetensors")));
  }

  TemporaryFolder folder_;
  std::string train_;
  std::string test_;
  Json job_;
};

TEST_F(Fit, TrainsAndPrintsATableAndALineAnEpoch) {
  const Outcome outcome = fit();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("EPOCH"), HasSubstr("HELD-OUT ACCURACY"),
                                    HasSubstr("TEST ACCURACY"), HasSubstr("TEST LOSS")));
  EXPECT_THAT(outcome.output, HasSubstr("small: 136 steps on 270 examples"));
  for (int epoch = 1; epoch <= 4; ++epoch)
    EXPECT_THAT(outcome.errors, HasSubstr(fmt::format("small: epoch {}/4: loss", epoch)));
  EXPECT_THAT(outcome.errors, ::testing::Not(HasSubstr("\r")));  // no bar: no terminal
}

TEST_F(Fit, AsJsonGivesEachEpochAndTheState) {
  const Json result = fit_json();
  ASSERT_EQ(result.at("epochs").size(), 4U);
  const Json& last = result.at("epochs")[3];
  EXPECT_EQ(last.at("examples"), 270);
  EXPECT_LT(last.at("loss").get<double>(), result.at("epochs")[0].at("loss").get<double>());
  EXPECT_GT(last.at("accuracy").get<double>(), 0.8);
  EXPECT_GT(last.at("test").at("accuracy").get<double>(), 0.8);
  EXPECT_TRUE(last.at("held_out").contains("loss"));
  EXPECT_EQ(result.at("complete"), true);
  EXPECT_EQ(result.at("steps"), 4 * 34);
  EXPECT_EQ(result.at("parameters"), 15);
  const MappedFile file = take(MappedFile::open(path("out.safetensors")));
  EXPECT_EQ(state_digest(take(read_state(file.bytes()))).hex(), result.at("state"));
}

TEST_F(Fit, TheStateSaysWhereItComesFrom) {
  fit_json();
  const MappedFile file = take(MappedFile::open(path("out.safetensors")));
  const auto header = take(parse_safetensors_header(file.bytes(), file.bytes().size()));
  EXPECT_EQ(header.metadata.at("job"), "small");
  EXPECT_EQ(header.metadata.at("steps"), "136");
  EXPECT_EQ(header.metadata.at("complete"), "true");
  EXPECT_TRUE(take(parse_json(header.metadata.at("model"))).contains("graph"));
  EXPECT_TRUE(take(parse_json(header.metadata.at("metrics"))).contains("test_accuracy"));
}

TEST_F(Fit, EqualJobsGiveEqualBytesWithAnyNumberOfThreads) {
  fit_json({}, "a.safetensors");
  fit_json({"--threads", "2"}, "b.safetensors");
  EXPECT_EQ(take(read_file(path("a.safetensors"), 1 << 20)),
            take(read_file(path("b.safetensors"), 1 << 20)));
}

TEST_F(Fit, BeginsFromAGivenState) {
  const Json first = fit_json({}, "first.safetensors");
  const Json second = fit_json({"--init", path("first.safetensors")});
  EXPECT_LT(second.at("epochs")[0].at("loss").get<double>(),
            first.at("epochs")[0].at("loss").get<double>());
  // `model init` writes the state that a fit begins from.
  const Outcome init =
      run({MUSTER_BINARY, "model", "init", job_file(), "--seed", "1", "-o", path("start")},
          folder_.path());
  ASSERT_EQ(init.exit_code, 0) << init.errors;
  EXPECT_EQ(fit_json({"--init", path("start")}).at("state"), first.at("state"));
}

TEST_F(Fit, FitsStandardisersOnTheTrainingData) {
  job_["model"] = {
      {"graph",
       {{"input", {{"shape", {4}}}},
        {"nodes",
         {{{"id", "scale"}, {"op", "standardize"}}, {{"id", "fc"}, {"op", "dense"}, {"units", 3}}}},
        {"loss", {{"type", "softmax_cross_entropy"}}}}}};
  EXPECT_GT(fit_json().at("epochs")[3].at("accuracy").get<double>(), 0.8);
  const MappedFile file = take(MappedFile::open(path("out.safetensors")));
  const auto header = take(parse_safetensors_header(file.bytes(), file.bytes().size()));
  EXPECT_THAT(header.metadata.at("model"), HasSubstr("\"mean\""));
}

TEST_F(Fit, SaysWhatOfAFederatedJobIsNotUsed) {
  job_["strategy"] = {{"type", "Federated"}, {"num_clients", 10}, {"rounds", 3}};
  const Outcome outcome = fit();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("not used here, as this trains in one process: strategy"));
}

TEST_F(Fit, MeasuresWhatTheJobAsksFor) {
  job_["evaluation"]["metrics"] = Json::array({{{"type", "top_k"}, {"k", 2}}});
  const Json test = fit_json().at("epochs")[0].at("test");
  EXPECT_TRUE(test.contains("top2_accuracy")) << test;
  EXPECT_FALSE(test.contains("accuracy")) << test;
}

TEST_F(Fit, EndsAtItsTimeWithPartialWork) {
  job_["local"].update({{"epochs", 1'000'000}, {"max_seconds", 0.2}});
  const Outcome outcome = fit();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("the time (local.max_seconds) was up"));
  EXPECT_TRUE(fs::exists(path("out.safetensors")));
}

TEST_F(Fit, CtrlCSavesWhatThereIsAndTheCheckpointGoesOnFromThere) {
  job_["local"]["epochs"] = 1'000'000;
  Process endless(call({"--json", "--checkpoint", path("run")}), path("endless"));
  wait_for_epoch(endless);
  endless.signal(SIGINT);
  EXPECT_EQ(endless.wait(), 1) << endless.errors();
  EXPECT_THAT(endless.errors(), AllOf(HasSubstr("stopped after"), HasSubstr("out.safetensors"),
                                      HasSubstr("--resume")));
  const Json result = take(parse_json(endless.output(), {.bytes = 1 << 22}));
  EXPECT_EQ(result.at("interrupted"), true);
  EXPECT_EQ(result.at("complete"), false);
  const MappedFile file = take(MappedFile::open(path("out.safetensors")));
  EXPECT_EQ(state_digest(take(read_state(file.bytes()))).hex(), result.at("state"));

  Process resumed(call({"--json", "--checkpoint", path("run"), "--resume"}), path("resumed"));
  wait_for_epoch(resumed);
  resumed.signal(SIGTERM);
  EXPECT_EQ(resumed.wait(), 1) << resumed.errors();
  const Json more = take(parse_json(resumed.output(), {.bytes = 1 << 22}));
  EXPECT_GT(more.at("steps").get<std::int64_t>(), result.at("steps").get<std::int64_t>());
}

TEST_F(Fit, AnInterruptedAndResumedRunGivesTheBitsOfAnUninterruptedOne) {
  job_["local"]["epochs"] = 400;
  const Json whole = fit_json({}, "whole.safetensors");
  Process first(call({"--checkpoint", path("run")}), path("first"));
  wait_for_epoch(first);
  first.signal(SIGINT);
  ASSERT_EQ(first.wait(), 1) << first.errors();
  const Json rest = fit_json({"--checkpoint", path("run"), "--resume"}, "rest.safetensors");
  EXPECT_EQ(rest.at("state"), whole.at("state"));
  EXPECT_EQ(rest.at("epochs").size(), whole.at("epochs").size());
  EXPECT_EQ(rest.at("epochs")[0].at("test"), whole.at("epochs")[0].at("test"));
}

// Minutes of steps of a good part of a second on one thread, one an epoch.
class FitOfLongSteps : public Fit {
 protected:
  FitOfLongSteps() {
    fs::create_directory(path("large"));
    const std::string data = write_csv(path("large"), 3000, 3).string();
    job_["data"] = "csv:" + data + ";target=label;holdout=0";
    job_.erase("evaluation");
    job_["model"] = {{"preset", "mlp"}, {"input", {4}}, {"hidden", {2048, 2048}}, {"classes", 3}};
    job_["local"].update({{"epochs", 200}, {"batch_size", 3000}});
    job_["local"]["optimizer"]["lr"] = 1e-3;
  }

  // In the second step.
  std::unique_ptr<Process> start() const {
    auto process = std::make_unique<Process>(call({"--threads", "1"}), path("long"));
    wait_for_epoch(*process);
    return process;
  }
};

TEST_F(FitOfLongSteps, TheSecondSignalEndsItAtOnceWhicheverItIs) {
  const auto process = start();
  process->signal(SIGINT);
  process->signal(SIGTERM);
  EXPECT_EQ(process->wait(), 128 + SIGTERM) << process->errors();
  EXPECT_FALSE(fs::exists(path("out.safetensors"))) << "it went on to the end of the step";
}

TEST_F(FitOfLongSteps, ASecondCtrlCEndsItAtOnce) {
  const auto process = start();
  while (process->running()) {  // two that come close together count as one
    process->signal(SIGINT);
    std::this_thread::yield();
  }
  EXPECT_EQ(process->wait(), 128 + SIGINT) << process->errors();
  EXPECT_FALSE(fs::exists(path("out.safetensors"))) << "it went on to the end of the step";
}

TEST_F(FitOfLongSteps, ASingleSignalLeavesTheEndAndTheExitCodeToIt) {
  const auto process = start();
  process->signal(SIGTERM);
  EXPECT_EQ(process->wait(), 1) << process->errors();
  EXPECT_THAT(process->errors(), HasSubstr("out.safetensors has the state as it was then"));
  EXPECT_TRUE(fs::exists(path("out.safetensors")));
}

TEST_F(Fit, ACheckpointThatCannotBeWrittenCostsNoTraining) {
  const Json good = fit_json({}, "good.safetensors");
  // The job comes through a pipe, behind the look at the checkpoint's folder, which is then gone.
  const std::string job = job_.dump();
  const std::string pipe = path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_directory(path("kept"));
  const std::string checkpoint = path("kept") / "run";
  Process training({MUSTER_BINARY, "fit", pipe, "--out", path("out.safetensors"), "--json",
                    "--checkpoint", checkpoint},
                   path("training"));
  std::ofstream writing(pipe);  // opens when it is read
  fs::rename(path("kept"), path("gone"));
  writing << job;
  writing.close();
  EXPECT_EQ(training.wait(), 1) << training.errors();
  const std::string errors = training.errors();
  const std::string failed = "the checkpoint " + checkpoint + " could not be written: ";
  const std::size_t warned = errors.find(failed);
  ASSERT_NE(warned, std::string::npos) << errors;
  const std::string line = errors.substr(warned, errors.find('\n', warned) - warned);
  EXPECT_THAT(line, AllOf(HasSubstr("No such file"), ::testing::EndsWith("; training goes on")));
  EXPECT_EQ(errors.find("training goes on"), errors.rfind("training goes on"));
  EXPECT_THAT(errors.substr(errors.find("epoch 4/4")),
              HasSubstr("out.safetensors has the trained state; " + failed));
  EXPECT_EQ(take(parse_json(training.output())).at("state"), good.at("state"));
  EXPECT_EQ(take(read_file(path("out.safetensors"), 1 << 20)),
            take(read_file(path("good.safetensors"), 1 << 20)));
}

TEST_F(Fit, AStoppedRunWhoseCheckpointCannotBeWrittenDoesNotSendToIt) {
  job_["local"]["epochs"] = 1'000'000;
  fs::create_directory(path("kept"));
  Process endless(call({"--checkpoint", path("kept") / "run"}), path("endless"));
  wait_for_epoch(endless);
  fs::rename(path("kept"), path("gone"));
  endless.signal(SIGINT);
  EXPECT_EQ(endless.wait(), 1) << endless.errors();
  EXPECT_THAT(endless.errors(), AllOf(HasSubstr("stopped after"), HasSubstr("could not be written"),
                                      ::testing::Not(HasSubstr("--resume"))));
  EXPECT_TRUE(fs::exists(path("out.safetensors")));
}

TEST_F(Fit, AStateThatCannotBeWrittenIsStillInTheCheckpoint) {
  job_["local"]["epochs"] = 1'000'000;
  fs::create_directory(path("states"));
  Process endless(call({"--checkpoint", path("run")}, "states/out"), path("endless"));
  wait_for_epoch(endless);
  fs::rename(path("states"), path("gone"));
  endless.signal(SIGINT);
  EXPECT_EQ(endless.wait(), 1) << endless.errors();
  EXPECT_THAT(endless.errors(), AllOf(HasSubstr("No such file"), HasSubstr("--resume")));
  Process resumed(call({"--json", "--checkpoint", path("run"), "--resume"}), path("resumed"));
  wait_for_epoch(resumed);
  resumed.signal(SIGTERM);
  EXPECT_EQ(resumed.wait(), 1) << resumed.errors();
  EXPECT_TRUE(fs::exists(path("out.safetensors")));
}

TEST_F(Fit, ACheckpointOfOtherSettingsIsRefused) {
  fit_json({"--checkpoint", path("run")}, "first.safetensors");
  job_["local"]["batch_size"] = 9;
  expect_refused(fit({"--checkpoint", path("run"), "--resume"}),
                 {"local.batch_size 8", "the job now has 9"});
  job_["local"]["batch_size"] = 8;
  job_["seed"] = 2;
  expect_refused(fit({"--checkpoint", path("run"), "--resume"}), {path("run"), "start"});
  take(write_file_durably(path("run"), as_bytes("{}")));
  expect_refused(fit({"--checkpoint", path("run"), "--resume"}), {path("run")});
  expect_refused(fit({"--resume"}), {"--checkpoint"});
}

TEST_F(Fit, ALossThatTurnsNanSaysWhereAndKeepsTheOldState) {
  fit_json();
  const std::string before = take(read_file(path("out.safetensors"), 1 << 20));
  job_["local"]["optimizer"]["lr"] = 1e6;
  job_["model"] = {{"preset", "mlp"}, {"input", {4}}, {"classes", 3}};
  job_["local"]["epochs"] = 100;
  const Outcome outcome = fit();
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_THAT(outcome.errors, HasSubstr("step "));
  EXPECT_EQ(take(read_file(path("out.safetensors"), 1 << 20)), before);
}

TEST_F(Fit, HostileJobsAreRefusedNamingFileAndField) {
  const Json good = job_;
  const auto refused = [&](const char* pointer, const Json& value, const Words& words) {
    SCOPED_TRACE(pointer);
    job_ = good;
    job_[Json::json_pointer(pointer)] = value;
    Words all{"job.json"};
    all.insert(all.end(), words.begin(), words.end());
    expect_refused(fit(), all);
  };
  refused("/name", "../x", {"job.name"});
  refused("/seed", -1, {"job.seed"});
  refused("/seed", 18446744073709551615U, {"job.seed"});
  refused("/epochs", 3, {"job.epochs", "unknown field"});
  refused("/local/epochs", 0, {"job.local.epochs"});
  refused("/local/mu", 0.1, {"job.local.mu", "strategy"});
  refused("/local/optimizer/type", "sdg", {"job.local.optimizer.type", "sdg"});
  refused("/model/preset", "mpl", {"job.model.preset", "did you mean \"mlp\""});
  refused("/model/hidden", {3}, {"job.model.hidden", "unknown field"});
  refused("/model", nullptr, {"job.model"});
  refused("/data", "", {"no training data", "--data"});
  refused("/evaluation/metrics", {"accurcy"}, {"job.evaluation.metrics", "accurcy"});
  refused("/evaluation/federeted", true, {"job.evaluation.federeted"});
}

TEST_F(Fit, WhatDoesNotFitTogetherIsRefused) {
  const Json good = job_;
  job_["model"]["input"] = {5};
  expect_refused(fit(), {"training data", "5", "4"});
  job_ = good;
  expect_refused(fit({"--data", "csv:nowhere.csv;target=label"}), {"training data", "nowhere.csv"});
  expect_refused(fit({"--test", "csv:nowhere.csv;target=label"}), {"test data", "nowhere.csv"});
  // A test file that lacks a column.
  take(write_file_durably(path("narrow.csv"), as_bytes("a,label\n1,2\n")));
  expect_refused(fit({"--test", "csv:" + path("narrow.csv").string() + ";target=label"}),
                 {"test data", "4"});
  expect_refused(fit({"--data", "cvs:x"}), {"training data", "cvs"});
  expect_refused(fit({"--init", job_file()}), {"initial state", "job.json"});
  expect_refused(fit({"--init", path("none")}), {"initial state", "none"});
  expect_refused(fit({"--checkpoint", path("none"), "--resume"}), {"checkpoint", "none"});
  expect_refused(fit({}, "nowhere/out.safetensors"), {"nowhere", "is no folder"});
  expect_refused(fit({}, "test"), {"is no regular file"});
  expect_refused(run({MUSTER_BINARY, "fit", path("missing.json")}, folder_.path()),
                 {"missing.json"});
  for (const char* text : {"", "{", "[]", "{\"model\": 1, \"model\": 2}", "\xff"}) {
    take(write_file_durably(path("bad.json"), as_bytes(text)));
    expect_refused(run({MUSTER_BINARY, "fit", path("bad.json")}, folder_.path()), {"bad.json"});
  }
}

}  // namespace
}  // namespace muster
