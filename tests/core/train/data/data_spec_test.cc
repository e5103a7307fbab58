#include "core/train/data/data_spec.h"

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <cstdio>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/train/data/data_support.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(std::string_view spec) {
  const auto parsed = parse_data_spec(spec);
  return parsed ? "no error" : parsed.error().message;
}

TEST(DataSpec, ReadsEveryField) {
  const auto spec = parse_data_spec(
      "idx:/d/i.gz,/d/l.gz;shard=3/10;split=dirichlet;alpha=0.25;seed=7;holdout=0.2");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->images, "/d/i.gz");
  EXPECT_EQ(spec->labels, "/d/l.gz");
  EXPECT_EQ(spec->shard, 3);
  EXPECT_EQ(spec->shards, 10);
  EXPECT_EQ(spec->split, DataSpec::Split::kDirichlet);
  EXPECT_EQ(spec->alpha, 0.25);
  EXPECT_EQ(spec->seed, 7U);
  EXPECT_EQ(spec->holdout, 0.2);
  const auto csv = parse_data_spec("csv:f.csv;target=y;shard=0/2;split=shards;per_device=3");
  ASSERT_TRUE(csv) << csv.error().message;
  EXPECT_EQ(csv->file, "f.csv");
  EXPECT_EQ(csv->csv.target, "y");
  EXPECT_EQ(csv->per_device, 3);
  EXPECT_EQ(csv->holdout, 0.1);
}

TEST(DataSpec, RefusesWhatItDoesNotKnowSayingWhatItKnows) {
  EXPECT_THAT(error_of(""), AllOf(HasSubstr("idx:"), HasSubstr("csv:")));
  EXPECT_THAT(error_of("hdf5:x"),
              AllOf(HasSubstr("hdf5:x"), HasSubstr("idx:"), HasSubstr("csv:"), HasSubstr("npy:"),
                    HasSubstr("safetensors:"), HasSubstr("text:"), HasSubstr("synthetic:")));
  EXPECT_THAT(error_of("npy:x"), HasSubstr("two files"));
  EXPECT_THAT(error_of("idx"), HasSubstr("idx:IMAGES"));
  EXPECT_THAT(error_of("idx:a"), HasSubstr("two files"));
  EXPECT_THAT(error_of("idx:a,b,c"), HasSubstr("two files"));
  EXPECT_THAT(error_of("idx:a,b;sead=1"),
              AllOf(HasSubstr("sead"), HasSubstr("scale, seed, holdout")));
  EXPECT_THAT(error_of("idx:a,b;seed"), HasSubstr("field=value"));
  EXPECT_THAT(error_of("idx:a,b;seed=1;seed=1"), HasSubstr("twice"));
  EXPECT_THAT(error_of("idx:a,b;target=y"), HasSubstr("target"));
  EXPECT_THAT(error_of("csv:a"), HasSubstr("target=COLUMN"));
  EXPECT_THAT(error_of("csv:a;target=y;targets=z"), HasSubstr("classes, values"));
}

TEST(DataSpec, ReadsTheFieldsOfACsv) {
  const auto spec = parse_data_spec(
      "csv:f.csv;target=y;classes=cat|dog;features=age,color,size;categorical=size;"
      "categories.color=red|green|*;missing=mean;missing.age=-1.5;missing.color=red;na=NA|?");
  ASSERT_TRUE(spec) << spec.error().message;
  const CsvOptions& csv = spec->csv;
  EXPECT_THAT(csv.classes, ElementsAre("cat", "dog"));
  EXPECT_THAT(csv.features, ElementsAre("age", "color", "size"));
  EXPECT_THAT(csv.categorical, ElementsAre("size"));
  EXPECT_THAT(csv.categories.at("color"), ElementsAre("red", "green", "*"));
  EXPECT_EQ(csv.missing, "mean");
  EXPECT_EQ(csv.missing_of.at("age"), "-1.5");
  EXPECT_EQ(csv.missing_of.at("color"), "red");
  EXPECT_THAT(csv.missing_words, ElementsAre("NA", "?"));
  EXPECT_FALSE(csv.collect_categories);
}

TEST(DataSpec, ReadsTheFieldsOfArraysAndTexts) {
  const auto npy = parse_data_spec("npy:x.npy,y.npy;scale=1;targets=values;holdout=0");
  ASSERT_TRUE(npy) << npy.error().message;
  EXPECT_THAT(npy->files(), ElementsAre("x.npy", "y.npy"));
  EXPECT_EQ(npy->arrays.scale, 1.0F);
  EXPECT_EQ(npy->arrays.targets, ArrayOptions::Targets::kValues);
  const auto tensors = parse_data_spec("safetensors:d.safetensors;features=x;labels=y");
  ASSERT_TRUE(tensors) << tensors.error().message;
  EXPECT_EQ(tensors->tensors.features, "x");
  EXPECT_EQ(tensors->tensors.targets, "y");
  EXPECT_EQ(tensors->arrays.scale, std::nullopt);
  const auto text = parse_data_spec("text:t.txt;window=12;stride=3;vocabulary=v.txt");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(text->text.window, 12);
  EXPECT_EQ(text->text.stride, 3);
  EXPECT_THAT(text->files(), ElementsAre("t.txt", "v.txt"));
  EXPECT_THAT(parse_data_spec("text:t.txt;vocabulary=bytes")->files(), ElementsAre("t.txt"));
  EXPECT_EQ(parse_data_spec("idx:a,b;scale=2")->arrays.scale, 2.0F);
}

TEST(DataSpec, RefusesFieldsThatAreWrongForTheirFormat) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"csv:a;target=y;classes=cat|", "classes=cat|"},
      {"csv:a;target=y;classes=cat|cat", "different"},
      {"csv:a;target=y;classes=a|b;targets=values", "not both"},
      {"csv:a;target=y;features=", "features="},
      {"csv:a;target=y;categorical=a,,b", "categorical=a,,b"},
      {"csv:a;target=y;categories.c=", "categories.c="},
      {"csv:a;target=y;missing=most", "error, mean, median or a number"},
      {"csv:a;target=y;missing=nan", "error, mean, median or a number"},
      {"csv:a;target=y;mising.age=0", "missing.COLUMN"},
      {"csv:a;target=y;window=3", "unknown field window"},
      {"csv:;target=y", "no file"},
      {"npy:a,", "two files"},
      {"npy:a,b;target=y", "unknown field target"},
      {"npy:a,b;scale=0", "scale=0"},
      {"npy:a,b;scale=nan", "scale=nan"},
      {"safetensors:a;features=x", "two tensors"},
      {"safetensors:a;features=x;labels=", "two tensors"},
      {"safetensors:;features=x;labels=y", "no file"},
      {"text:", "no file"},
      {"text:a;window=0", "window=0"},
      {"text:a;stride=0", "stride=0"},
      {"text:a;vocabulary=", "ascii, bytes or a file"},
  };
  for (const auto& [spec, wanted] : cases) EXPECT_THAT(error_of(spec), HasSubstr(wanted)) << spec;
}

TEST(DataSpec, RefusesNumbersOutOfRange) {
  for (const char* field :
       {"shard=10/10", "shard=-1/10", "shard=1", "shard=/", "shard=0/0", "shard=1/2/3",
        "shard=0/99999999999", "seed=-1", "seed=1.5", "seed=", "holdout=1", "holdout=-0.1",
        "holdout=nan", "shard=0/2;split=random", "shard=0/2;split=shards;per_device=0",
        "shard=0/2;split=dirichlet;alpha=0", "shard=0/2;split=dirichlet;alpha=inf",
        // Fields that another split has, and a split of nothing.
        "shard=0/2;alpha=1", "shard=0/2;split=dirichlet;per_device=2", "split=iid"}) {
    EXPECT_THAT(error_of(std::string("idx:a,b;") + field), HasSubstr("data spec")) << field;
  }
}

class DataFiles : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    std::string csv = "x,y\n";
    // x tells the examples apart.
    for (int i = 0; i < 200; ++i) csv += std::to_string(i) + "," + std::to_string(i % 4) + "\n";
    file("d.csv", csv);
  }

  LocalData load(const std::string& fields) {
    auto data = load_data("csv:" + (folder_ / "d.csv").string() + ";target=y" + fields);
    EXPECT_TRUE(data) << data.error().message;
    return data ? *std::move(data) : LocalData{};
  }
};

TEST_F(DataFiles, WithoutShardItIsTheWholeFileLessTheHoldout) {
  const LocalData data = load("");
  EXPECT_EQ(data.train.size(), 180);
  EXPECT_EQ(data.holdout.size(), 20);
  const LocalData all = load(";holdout=0");
  EXPECT_EQ(all.train.size(), 200);
  EXPECT_EQ(all.holdout.size(), 0);
}

TEST_F(DataFiles, ShardsAndHoldoutsTogetherAreTheFileOnce) {
  for (const char* split : {"iid", "shards", "dirichlet"}) {
    SCOPED_TRACE(split);
    std::vector<float> seen;
    for (int i = 0; i < 5; ++i) {
      const LocalData data = load(";seed=3;holdout=0.25;split=" + std::string(split) +
                                  ";shard=" + std::to_string(i) + "/5");
      for (const Dataset* part : {&data.train, &data.holdout}) {
        const auto x = features_of(*part);
        seen.insert(seen.end(), x.begin(), x.end());
      }
    }
    std::sort(seen.begin(), seen.end());
    ASSERT_EQ(seen.size(), 200U);
    for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], static_cast<float>(i));
  }
}

TEST_F(DataFiles, EqualSpecsGiveEqualDataAndAnotherSeedOther) {
  const std::string spec = ";shard=1/4;seed=";
  EXPECT_EQ(features_of(load(spec + "1").train), features_of(load(spec + "1").train));
  EXPECT_EQ(features_of(load(spec + "1").holdout), features_of(load(spec + "1").holdout));
  EXPECT_NE(features_of(load(spec + "1").train), features_of(load(spec + "2").train));
}

TEST_F(DataFiles, SplitsByClassWantClasses) {
  const auto data = load_data("csv:" + (folder_ / "d.csv").string() +
                              ";target=y;targets=values;shard=0/2;split=shards");
  ASSERT_FALSE(data);
  EXPECT_THAT(data.error().message, HasSubstr("class labels"));
}

TEST_F(DataFiles, MeansFillWhatIsMissingFromTheTrainingPartAlone) {
  std::string csv = "x,z,y\n";
  for (int i = 0; i < 40; ++i) {
    csv += std::to_string(i) + "," + (i % 4 == 0 ? "" : std::to_string(i * i)) + ",0\n";
  }
  const std::string spec = "csv:" + file("m.csv", csv) + ";target=y;holdout=0.5;seed=5;missing=";
  for (const bool median : {false, true}) {
    const auto data = load_data(spec + (median ? "median" : "mean"));
    ASSERT_TRUE(data) << data.error().message;
    std::vector<double> known;
    const std::vector<float> train = features_of(data->train);
    for (std::size_t i = 0; i < train.size(); i += 2) {
      if (static_cast<int>(train[i]) % 4 != 0) known.push_back(train[i + 1]);
    }
    std::sort(known.begin(), known.end());
    const std::size_t half = known.size() / 2;
    const double wanted = !median ? std::accumulate(known.begin(), known.end(), 0.0) /
                                        static_cast<double>(known.size())
                          : known.size() % 2 == 1 ? known[half]
                                                  : (known[half - 1] + known[half]) / 2;
    std::size_t filled = 0;
    for (const Dataset* part : {&data->train, &data->holdout}) {
      EXPECT_EQ(part->size(), 20);
      const std::vector<float> x = features_of(*part);
      for (std::size_t i = 0; i < x.size(); i += 2) {
        const auto number = static_cast<int>(x[i]);
        const bool missing = number % 4 == 0;
        EXPECT_EQ(x[i + 1],
                  missing ? static_cast<float>(wanted) : static_cast<float>(number * number));
        filled += missing ? 1 : 0;
      }
    }
    EXPECT_EQ(filled, 10U);
  }
}

TEST_F(DataFiles, CategoriesMustBeStatedWhereOtherDevicesTrain) {
  const std::string spec =
      "csv:" + file("c.csv", "c,y\nred,0\nblue,1\nred,1\n") + ";target=y;categorical=c;holdout=0";
  const auto refused = load_data(spec);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("categories.c=blue|red"));
  const auto central = load_data(spec, DataUse::kCentral);
  ASSERT_TRUE(central) << central.error().message;
  EXPECT_THAT(features_of(central->train), ElementsAre(0, 1, 1, 0, 0, 1));
}

TEST_F(DataFiles, TextsAreDealtByWindowsAndNotByClass) {
  const std::string spec = "text:" + file("t.txt", std::string(1001, 'a')) + ";window=10;shard=0/5";
  const auto data = load_data(spec + ";holdout=0.25");
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->train.size(), 15);
  EXPECT_EQ(data->holdout.size(), 5);
  EXPECT_EQ(data->train.target_size(), 10);
  EXPECT_THAT(error_text(load_data(spec + ";split=shards")), HasSubstr("one class label"));
}

TEST(DataSpec, RefusesAPipeInsteadOfWaitingForIt) {
  const std::string pipe = ::testing::TempDir() + "muster-pipe-" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto data = load_data("csv:" + pipe + ";target=label");
  std::remove(pipe.c_str());
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().reason, "bad_data_spec");
}

}  // namespace
}  // namespace muster
