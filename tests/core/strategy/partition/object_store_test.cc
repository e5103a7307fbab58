#include "core/strategy/partition/object_store.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace muster {
namespace {

// One suite for both stores.
class ObjectStores : public ::testing::TestWithParam<bool> {
 protected:
  ObjectStores() {
    if (GetParam()) {
      store_ = std::make_unique<FolderObjectStore>(folder_.path());
    } else {
      store_ = std::make_unique<MemoryObjectStore>();
    }
  }
  Digest put(std::string_view text, std::int64_t takers = 1) {
    const auto digest = store_->put(as_bytes(text), takers);
    EXPECT_TRUE(digest) << digest.error().message;
    return *digest;
  }
  std::string take(const Digest& digest) {
    const auto bytes = store_->take(digest);
    return bytes ? std::string(as_text(*bytes)) : bytes.error().reason;
  }

  testing::TemporaryFolder folder_;
  std::unique_ptr<ObjectStore> store_;
};

TEST_P(ObjectStores, GivesAnObjectByItsDigestToAsManyAsWereAnnounced) {
  const Digest digest = put("activation", 2);
  EXPECT_EQ(digest, sha256("activation"));
  EXPECT_EQ(take(digest), "activation");
  EXPECT_EQ(take(digest), "activation");
  EXPECT_EQ(take(digest), "no_object");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_P(ObjectStores, KeepsEqualBytesOnceForAllThatWereAnnounced) {
  const Digest first = put("zeros");
  EXPECT_EQ(put("zeros", 2), first);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(take(first), "zeros");
  EXPECT_EQ(take(first), "no_object");
}

TEST_P(ObjectStores, ForgetsWhatNobodyComesFor) {
  const Digest digest = put("gradient", 3);
  store_->drop(digest, 2);
  EXPECT_EQ(take(digest), "gradient");
  store_->drop(digest, 1);
  put("other", 1);
  store_->drop(sha256("other"), 9);
  EXPECT_EQ(take(sha256("other")), "no_object");
}

TEST_P(ObjectStores, TakesEmptyObjects) {
  EXPECT_EQ(take(put("")), "");
}

TEST_P(ObjectStores, ServesManyThreads) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string text = std::to_string(i % 2 == 0 ? i : 1000 * t + i);
        EXPECT_EQ(take(put(text)), text);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Both, ObjectStores, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Folder" : "Memory"; });

TEST(MemoryObjectStore, RefusesMoreThanItsLimitAndFreesWhatWasTaken) {
  MemoryObjectStore store(10);
  const auto digest = store.put(as_bytes("eight by"), 1);
  ASSERT_TRUE(digest);
  EXPECT_EQ(store.put(as_bytes("abc"), 1).error().reason, "store_full");
  EXPECT_TRUE(store.put(as_bytes("eight by"), 1)) << "it is there already";
  EXPECT_EQ(store.size_bytes(), 8U);
  ASSERT_TRUE(store.take(*digest));
  ASSERT_TRUE(store.take(*digest));
  EXPECT_EQ(store.size(), 0U);
  EXPECT_TRUE(store.put(as_bytes("abc"), 1));
}

TEST(FolderObjectStore, SeesThatAFileIsNotWhatWasPut) {
  const testing::TemporaryFolder folder;
  FolderObjectStore store(folder.path());
  const Digest digest = *store.put(as_bytes("activation"), 3);
  std::ofstream(folder.path() / digest.hex()) << "activatioN";
  EXPECT_EQ(store.take(digest).error().code, ErrorCode::kDataLoss);
  std::ofstream(folder.path() / digest.hex()) << "activation and more";
  EXPECT_EQ(store.take(digest).error().code, ErrorCode::kDataLoss);
  std::filesystem::remove(folder.path() / digest.hex());
  EXPECT_EQ(store.take(digest).error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(store.take(digest).error().code, ErrorCode::kNotFound);
}

TEST(FolderObjectStore, SaysThatItCannotWriteAndLeavesNothingBehind) {
  const testing::TemporaryFolder folder;
  {
    FolderObjectStore store(folder.path());
    ASSERT_TRUE(store.put(as_bytes("left"), 1));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  FolderObjectStore nowhere(folder.path() / "missing");
  EXPECT_EQ(nowhere.put(as_bytes("x"), 1).error().reason, "disk_full");
}

}  // namespace
}  // namespace muster
