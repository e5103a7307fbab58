#include "core/train/data_spec.h"

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <cstdio>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace muster {
namespace {

using testing::AllOf;
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
  EXPECT_THAT(error_of("npy:x"), AllOf(HasSubstr("npy:x"), HasSubstr("idx:")));
  EXPECT_THAT(error_of("idx"), HasSubstr("idx:IMAGES"));
  EXPECT_THAT(error_of("idx:a"), HasSubstr("two files"));
  EXPECT_THAT(error_of("idx:a,b,c"), HasSubstr("two files"));
  EXPECT_THAT(error_of("idx:a,b;sead=1"), AllOf(HasSubstr("sead"), HasSubstr("seed, holdout")));
  EXPECT_THAT(error_of("idx:a,b;seed"), HasSubstr("field=value"));
  EXPECT_THAT(error_of("idx:a,b;seed=1;seed=1"), HasSubstr("twice"));
  EXPECT_THAT(error_of("idx:a,b;target=y"), HasSubstr("target"));
  EXPECT_THAT(error_of("csv:a"), HasSubstr("target=COLUMN"));
  EXPECT_THAT(error_of("csv:a;target=y;targets=z"), HasSubstr("classes, values"));
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

class DataFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "muster-data-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::ofstream csv(folder_ / "d.csv");
    csv << "x,y\n";
    // x tells the examples apart.
    for (int i = 0; i < 200; ++i) csv << i << "," << i % 4 << "\n";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  LocalData load(const std::string& fields) {
    auto data = load_data("csv:" + (folder_ / "d.csv").string() + ";target=y" + fields);
    EXPECT_TRUE(data) << data.error().message;
    return data ? *std::move(data) : LocalData{};
  }

  static std::vector<float> examples(const Dataset& data) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < data.size(); ++i) all.push_back(i);
    std::vector<float> x(all.size());
    if (!all.empty()) data.copy_features(all, x);
    return x;
  }

  std::filesystem::path folder_;
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
        const auto x = examples(*part);
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
  EXPECT_EQ(examples(load(spec + "1").train), examples(load(spec + "1").train));
  EXPECT_EQ(examples(load(spec + "1").holdout), examples(load(spec + "1").holdout));
  EXPECT_NE(examples(load(spec + "1").train), examples(load(spec + "2").train));
}

TEST_F(DataFiles, SplitsByClassWantClasses) {
  const auto data = load_data("csv:" + (folder_ / "d.csv").string() +
                              ";target=y;targets=values;shard=0/2;split=shards");
  ASSERT_FALSE(data);
  EXPECT_THAT(data.error().message, HasSubstr("class labels"));
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
