#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/base/bytes.h"
#include "core/tensor/safetensors.h"
#include "core/train/training_run.h"
#include "tests/core/train/training_support.h"

namespace muster {
namespace {

using testing::HasSubstr;

LocalSettings settings_of(const Json& json) {
  auto settings = local_settings_from_json(json, "local");
  EXPECT_TRUE(settings) << settings.error().message;
  return *settings;
}

class SavedRun : public testing::Test {
 protected:
  SavedRun()
      : graph_(*graph_from_model(training::small_model())),
        data_(training::make_data(10)),
        start_(graph_.initial_state(1)) {}

  TrainingRun create(const Json& settings) const {
    auto run = TrainingRun::create(graph_, data_, start_, settings_of(settings), 7);
    EXPECT_TRUE(run) << run.error().message;
    return *std::move(run);
  }
  Result<TrainingRun> restore(ByteView saved) const {
    return TrainingRun::restore(graph_, data_, start_, saved);
  }
  static void step(TrainingRun& run, std::int64_t steps) {
    for (std::int64_t i = 0; i < steps; ++i) ASSERT_TRUE(run.step());
  }

  Graph graph_;
  Dataset data_;
  StateDict start_;
};

class EveryRecipe : public SavedRun, public testing::WithParamInterface<Json> {};

// Three epochs of three steps with dropout and shuffling, cut at every step.
TEST_P(EveryRecipe, RestoredAtAnyStepGivesTheBitsOfTheUninterruptedRun) {
  Json settings = GetParam();
  settings["epochs"] = 3;
  settings["batch_size"] = 4;
  TrainingRun whole = create(settings);
  step(whole, 9);
  ASSERT_TRUE(whole.done());
  const Bytes whole_end = *whole.save();
  const auto expected = std::move(whole).finish();
  ASSERT_TRUE(expected) << expected.error().message;
  for (std::int64_t cut = 0; cut <= 9; ++cut) {
    Bytes saved;
    {
      TrainingRun first = create(settings);
      step(first, cut);
      saved = *first.save();
      EXPECT_EQ(saved, *first.save()) << "saving changes nothing";
    }
    auto second = restore(saved);
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->steps(), cut);
    EXPECT_EQ(*second->save(), saved);
    step(*second, 9 - cut);
    EXPECT_EQ(*second->save(), whole_end);
    const auto result = std::move(*second).finish();
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_TRUE(result->state == expected->state) << "cut after step " << cut;
    EXPECT_EQ(result->metrics, expected->metrics);
    EXPECT_EQ(result->epochs, expected->epochs);
    EXPECT_EQ(result->steps, 9);
    EXPECT_TRUE(result->complete);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryRecipe,
    testing::Values(
        Json{{"optimizer", {{"type", "sgd"}, {"lr", 0.1}}}},
        Json{{"optimizer", {{"type", "sgd"}, {"momentum", 0.9}, {"dampening", 0.1}}}, {"mu", 0.1}},
        Json{{"optimizer", {{"type", "sgd"}, {"momentum", 0.9}, {"nesterov", true}}},
             {"schedule", {{"type", "step"}, {"step_size", 2}, {"gamma", 0.5}}}},
        Json{{"optimizer", {{"type", "adam"}, {"lr", 0.01}}},
             {"schedule", {{"type", "cosine"}, {"warmup_steps", 3}}},
             {"clip_norm", 0.1}},
        Json{{"optimizer", {{"type", "adamw"}, {"lr", 0.01}}}, {"accumulate", 2}},
        Json{{"optimizer",
              {{"type", "adagrad"}, {"lr_decay", 0.1}, {"initial_accumulator_value", 0.1}}},
             {"shuffle", false}},
        Json{{"optimizer", {{"type", "rmsprop"}}}, {"mu", 0.5}, {"clip_norm", 1}},
        Json{{"optimizer",
              {{"type", "rmsprop"},
               {"centered", true},
               {"eps", 0.01},
               {"momentum", 0.5},
               {"weight_decay", 0.1}}},
             {"schedule", {{"type", "cosine"}, {"total_steps", 5}, {"min_lr", 0.001}}}}));

TEST_F(SavedRun, IsASafetensorsFileOfWeightsAndMoments) {
  TrainingRun run = create({{"optimizer", {{"type", "adam"}}}, {"batch_size", 4}});
  step(run, 1);
  const auto all = read_state(*run.save());
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->layout().tensors().size(), 12U);
  EXPECT_THAT(all->tensor("w/fc1.weight"),
              testing::ElementsAreArray(run.state().tensor("fc1.weight")));
  EXPECT_NE(all->layout().find("exp_avg/fc2.bias"), nullptr);
  EXPECT_NE(all->layout().find("exp_avg_sq/fc2.bias"), nullptr);
}

TEST_F(SavedRun, KeepsTheHoldoutMetricsThatWereNoted) {
  TrainingRun run = create({{"batch_size", 10}, {"epochs", 2}});
  step(run, 1);
  run.note_holdout({{"loss", 0.25}, {"accuracy", 0.5}});
  auto again = restore(*run.save());
  ASSERT_TRUE(again) << again.error().message;
  step(*again, 1);
  const auto result = std::move(*again).finish();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->epochs.at(0).holdout, (Metrics{{"loss", 0.25}, {"accuracy", 0.5}}));
  EXPECT_TRUE(result->epochs.at(1).holdout.empty());
}

TEST_F(SavedRun, HasNoHoldoutMetricsThatAreNotFinite) {
  TrainingRun run = create({{"batch_size", 10}, {"epochs", 2}});
  step(run, 1);
  run.note_holdout({{"loss", std::numeric_limits<double>::infinity()},
                    {"accuracy", 0.5},
                    {"auc", std::numeric_limits<double>::quiet_NaN()}});
  auto again = restore(*run.save());
  ASSERT_TRUE(again) << again.error().message;
  step(*again, 1);
  const auto result = std::move(*again).finish();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->epochs.at(0).holdout, (Metrics{{"accuracy", 0.5}}));
}

TEST_F(SavedRun, GoesOnWithTheTimeThatWasLeft) {
  std::chrono::steady_clock::time_point now;
  const TrainingRunOptions options{.clock = [&] { return now; }};
  auto run = TrainingRun::create(graph_, data_, start_,
                                 settings_of({{"epochs", 100}, {"max_seconds", 10}}), 7, options);
  ASSERT_TRUE(run);
  now += std::chrono::seconds(6);
  ASSERT_TRUE(run->step());
  const Bytes saved = *run->save();
  now += std::chrono::hours(1);
  auto again = TrainingRun::restore(graph_, data_, start_, saved, options);
  ASSERT_TRUE(again) << again.error().message;
  now += std::chrono::seconds(3);
  ASSERT_TRUE(again->step());
  EXPECT_FALSE(again->done());
  now += std::chrono::seconds(1);
  ASSERT_TRUE(again->step());
  EXPECT_TRUE(again->done());
  const auto result = std::move(*again).finish();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->steps, 3);
  EXPECT_FALSE(result->complete);
}

TEST_F(SavedRun, OutOfTimeInAnEpochGoesOnAfterARestoreWithMoreTime) {
  std::chrono::steady_clock::time_point now;
  const Json settings{{"epochs", 2}, {"batch_size", 4}};
  auto run = TrainingRun::create(
      graph_, data_, start_, settings_of(settings), 7,
      {.clock = [&] { return now; }, .deadline = now + std::chrono::seconds(1)});
  ASSERT_TRUE(run && run->step());
  now += std::chrono::seconds(2);
  ASSERT_TRUE(run->step());
  ASSERT_TRUE(run->done());
  const Bytes saved = *run->save();
  EXPECT_EQ(std::move(*run).finish()->epochs.at(0).examples, 8);
  auto again = restore(saved);
  ASSERT_TRUE(again) << again.error().message;
  step(*again, 4);
  TrainingRun whole = create(settings);
  step(whole, 6);
  const auto result = std::move(*again).finish();
  const auto expected = std::move(whole).finish();
  ASSERT_TRUE(result && expected);
  EXPECT_TRUE(result->state == expected->state);
  EXPECT_EQ(result->epochs, expected->epochs);
}

TEST_F(SavedRun, RestoredWhenTheTimeIsUpGivesWhatItHas) {
  TrainingRun run = create({{"epochs", 2}, {"batch_size", 4}});
  step(run, 2);
  auto again = TrainingRun::restore(graph_, data_, start_, *run.save(),
                                    {.deadline = std::chrono::steady_clock::time_point::min()});
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_TRUE(again->done());
  const auto result = std::move(*again).finish();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->steps, 2);
  EXPECT_EQ(result->epochs.size(), 1U);
  EXPECT_FALSE(result->complete);
}

// A saved file taken apart, so that a test can change it.
struct Parts {
  explicit Parts(const Bytes& file) {
    const auto length = static_cast<std::size_t>(load_le64(file));
    header = Json::parse(as_text(ByteView(file).subspan(8, length)));
    data = Bytes(file.begin() + 8 + static_cast<std::ptrdiff_t>(length), file.end());
    run = Json::parse(header.at("__metadata__").at("run").get<std::string>());
  }
  Bytes file() {
    header["__metadata__"]["run"] = run.dump();
    return file_with(header.dump());
  }
  Bytes file_with(std::string text) const {
    text.append((8 - text.size() % 8) % 8, ' ');
    Bytes file(8);
    store_le64(text.size(), file);
    file.insert(file.end(), as_bytes(text).begin(), as_bytes(text).end());
    file.insert(file.end(), data.begin(), data.end());
    return file;
  }
  void put(const std::string& tensor, std::size_t element, float value) {
    const auto begin = header.at(tensor).at("data_offsets")[0].get<std::size_t>();
    std::memcpy(data.data() + begin + 4 * element, &value, sizeof value);
  }

  Json header;
  Json run;
  Bytes data;
};

// Cut in the middle and restored beside the offset it began with, or beside another one.
TEST_F(SavedRun, GoesOnWithTheGradientOffsetItBeganWithAndWithNoOther) {
  StateDict offset(graph_.layout());
  for (float& value : offset.values()) value = 0.125F;
  StateDict other = offset.clone();
  other.values()[0] = 0.25F;
  const LocalSettings settings = settings_of({{"epochs", 2}, {"batch_size", 4}});
  const auto make = [&] {
    return *TrainingRun::create(graph_, data_, start_, settings, 7, {.gradient_offset = &offset});
  };
  TrainingRun whole = make();
  step(whole, 6);
  TrainingRun cut = make();
  step(cut, 2);
  const Bytes saved = *cut.save();
  auto again = TrainingRun::restore(graph_, data_, start_, saved, {.gradient_offset = &offset});
  ASSERT_TRUE(again) << again.error().message;
  step(*again, 4);
  EXPECT_TRUE(again->state() == whole.state());
  EXPECT_EQ(*again->save(), *whole.save());

  TrainingRun plain = create({{"epochs", 2}, {"batch_size", 4}});
  const Bytes without = *plain.save();
  for (const auto& [bytes, given] :
       {std::pair{&saved, &other}, std::pair<const Bytes*, StateDict*>{&saved, nullptr},
        std::pair{&without, &offset}}) {
    const auto refused =
        TrainingRun::restore(graph_, data_, start_, *bytes, {.gradient_offset = given});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().reason, "bad_saved_run");
    EXPECT_THAT(refused.error().message, HasSubstr("gradient_offset"));
  }
}

class Refusal : public SavedRun {
 protected:
  Refusal() {
    TrainingRun run =
        create({{"optimizer", {{"type", "adam"}}}, {"batch_size", 4}, {"epochs", 3}, {"mu", 0.1}});
    step(run, 5);  // in the second epoch
    saved_ = *run.save();
  }

  void expect_refused(const Bytes& file, const std::string& message) const {
    const auto run = restore(file);
    ASSERT_FALSE(run) << message;
    EXPECT_EQ(run.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(run.error().reason, "bad_saved_run");
    EXPECT_THAT(run.error().message, testing::AllOf(HasSubstr("saved run: "), HasSubstr(message)));
  }

  Bytes saved_;
};

TEST_F(Refusal, TakesItsOwnFileInAnotherSpelling) {
  EXPECT_TRUE(restore(Parts(saved_).file()));
}

TEST_F(Refusal, OfEveryFieldThatIsMissing) {
  const Json run = Parts(saved_).run;
  const auto refused_without = [&](const Json::json_pointer& parent, const std::string& key) {
    Parts parts(saved_);
    parts.run.at(parent).erase(key);
    expect_refused(parts.file(), parent.to_string().starts_with("/settings") ? "settings" : key);
  };
  for (const char* parent :
       {"", "/tally", "/epochs/0", "/settings", "/settings/optimizer", "/settings/schedule"}) {
    const Json::json_pointer pointer(parent);
    for (const auto& [key, value] : run.at(pointer).items()) refused_without(pointer, key);
  }
}

TEST_F(Refusal, OfFieldsThatNobodyKnows) {
  for (const char* parent : {"", "/tally", "/epochs/0", "/settings", "/settings/optimizer"}) {
    Parts parts(saved_);
    parts.run.at(Json::json_pointer(parent))["surplus"] = 1;
    expect_refused(parts.file(), "surplus");
  }
}

TEST_F(Refusal, OfValuesThatAreWrongOrContradictOthers) {
  const std::vector<std::pair<std::string, std::vector<Json>>> cases{
      {"/format", {0, 2, "1"}},
      {"/seed", {7, "-1", "07", "", "18446744073709551616", "7 "}},
      {"/start", {"", "00", std::string(64, 'a'), 1}},
      {"/examples", {0, 9, 11, 10.5, "10"}},
      {"/steps", {-1, 0, 4, 6, 10, 1e3, "5"}},
      {"/spent_seconds", {-1, "0", nullptr}},
      {"/tally", {nullptr, 1, Json::array()}},
      {"/tally/loss_sum", {nullptr, "1"}},
      {"/tally/weight", {-1, nullptr}},
      {"/tally/examples", {0, 4, 7, 9, -1}},
      {"/tally/correct", {-1, 9, 1.5, "1"}},
      {"/epochs", {nullptr, Json::array(), Json::object(), Json::array({1})}},
      {"/epochs/0/epoch", {0, 2, 3, -1, "1"}},
      {"/epochs/0/examples", {0, 11}},
      {"/epochs/0/loss", {nullptr, "1"}},
      {"/epochs/0/accuracy", {-0.1, 1.1, "1"}},
      {"/epochs/0/holdout", {nullptr, 1, {{"loss", "1"}}}},
      {"/settings/batch_size", {0, -4, 3, "4"}},
      {"/settings/epochs", {0, 1}},
      {"/settings/optimizer/type", {"adagrad", "sgd", "lion"}},
      {"/settings/optimizer/lr", {-1, "1"}}};
  for (const auto& [pointer, values] : cases) {
    for (const Json& value : values) {
      Parts parts(saved_);
      parts.run.at(Json::json_pointer(pointer)) = value;
      SCOPED_TRACE(pointer + " = " + value.dump());
      expect_refused(parts.file(), "");
    }
  }
}

TEST_F(Refusal, OfMetadataThatIsNoRun) {
  Parts parts(saved_);
  for (const Json& metadata :
       {Json::object(), Json{{"run", "{"}}, Json{{"run", "[]"}}, Json{{"run", "{}"}},
        Json{{"run", "{\"format\": 1, \"format\": 1}"}},
        Json{{"run", parts.run.dump()}, {"more", "1"}}, Json{{"Run", parts.run.dump()}}}) {
    parts.header["__metadata__"] = metadata;
    expect_refused(parts.file_with(parts.header.dump()), "");
  }
  parts.header.erase("__metadata__");
  expect_refused(parts.file_with(parts.header.dump()), "metadata");
}

TEST_F(Refusal, OfTensorsThatDoNotFit) {
  {
    Parts parts(saved_);
    parts.header["exp_avg/fc1.Weight"] = parts.header["exp_avg/fc1.weight"];
    parts.header.erase("exp_avg/fc1.weight");
    expect_refused(parts.file(), "exp_avg/fc1.weight");
  }
  {
    Parts parts(saved_);
    parts.header["w/fc1.weight"]["shape"] = {4, 8};
    expect_refused(parts.file(), "w/fc1.weight");
  }
  {
    Parts parts(saved_);
    parts.header["w/fc1.bias"]["dtype"] = "I32";
    expect_refused(parts.file(), "I32");
  }
  // Adam's moments do not make a run of SGD.
  Parts parts(saved_);
  parts.run["settings"]["optimizer"] = to_json(OptimizerSettings{});
  expect_refused(parts.file(), "exp_avg");
}

TEST_F(Refusal, OfValuesThatNoRunCanHave) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const char* tensor : {"w/fc1.weight", "exp_avg/fc2.bias", "exp_avg_sq/fc1.bias"}) {
      Parts parts(saved_);
      parts.put(tensor, 1, bad);
      expect_refused(parts.file(), std::string(tensor).substr(std::string(tensor).find('/') + 1));
    }
  }
  Parts parts(saved_);
  parts.put("exp_avg_sq/fc1.bias", 1, -1.0F);
  expect_refused(parts.file(), "exp_avg_sq has a negative value");
}

TEST_F(Refusal, OfEveryProperPrefix) {
  for (std::size_t length = 0; length < saved_.size(); ++length) {
    const auto run = restore(ByteView(saved_).first(length));
    ASSERT_FALSE(run) << length;
    ASSERT_EQ(run.error().reason, "bad_saved_run") << length;
  }
}

TEST_F(Refusal, OfAnotherStartOrOtherData) {
  const StateDict other = graph_.initial_state(2);
  EXPECT_THAT(TrainingRun::restore(graph_, data_, other, saved_).error().message,
              HasSubstr("another state"));
  const Dataset more = training::make_data(11);
  EXPECT_THAT(TrainingRun::restore(graph_, more, start_, saved_).error().message,
              HasSubstr("examples: 10 found, the data has 11"));
}

}  // namespace
}  // namespace muster
