#include <sqlite3.h>

#include <map>

#include "tests/storage/store_fixture.h"

namespace muster {
namespace {

// SQLite's own file layer with writes and flushes that fail on demand. SQLite passes no context to
// these functions, so what they need is at file scope.
sqlite3_vfs* real_layer = nullptr;
const sqlite3_io_methods* real_methods = nullptr;  // any table: all write and flush alike
std::map<const sqlite3_io_methods*, sqlite3_io_methods>
    failing_methods;            // the database's, the WAL's
int writes_until_failure = -1;  // -1: none fails
int failure_code = SQLITE_FULL;
bool flushes_fail = false;
int flushes = 0;

int write_or_fail(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 offset) {
  if (writes_until_failure == 0) return failure_code;
  if (writes_until_failure > 0) --writes_until_failure;
  return real_methods->xWrite(file, bytes, count, offset);
}

int flush_or_fail(sqlite3_file* file, int flags) {
  ++flushes;
  if (flushes_fail) return SQLITE_IOERR_FSYNC;
  return real_methods->xSync(file, flags);
}

int open_failing(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  const int code = real_layer->xOpen(real_layer, name, file, flags, out_flags);
  if (code == SQLITE_OK) {
    real_methods = file->pMethods;
    sqlite3_io_methods& failing = failing_methods[real_methods];
    failing = *real_methods;
    failing.xWrite = write_or_fail;
    failing.xSync = flush_or_fail;
    file->pMethods = &failing;
  }
  return code;
}

class StoreFault : public StoreTest {
 protected:
  void SetUp() override {
    real_layer = sqlite3_vfs_find(nullptr);
    layer_ = *real_layer;
    layer_.zName = "failing";
    layer_.xOpen = open_failing;
    writes_until_failure = -1;
    flushes_fail = false;
    ASSERT_EQ(sqlite3_vfs_register(&layer_, 1), SQLITE_OK);
    StoreTest::SetUp();
  }
  void TearDown() override {
    writes_until_failure = -1;
    flushes_fail = false;
    StoreTest::TearDown();
    sqlite3_vfs_unregister(&layer_);
    sqlite3_vfs_register(real_layer, 1);
  }

  sqlite3_vfs layer_{};
};

TEST_F(StoreFault, EveryChangeIsFlushedBeforeItReturns) {
  const std::string job = submit("demo");
  enrol("pi-1");
  const RoundRow round = start_round(job, 1, {"pi-1"});
  int before = flushes;
  ASSERT_OK(store_->accept_update(update_row(round, "pi-1"), round, event_at(300)));
  EXPECT_GT(flushes, before);
  before = flushes;
  ASSERT_OK(store_->add_event(event_at(301)));
  EXPECT_GT(flushes, before);
}

// A change whose n-th write fails, for every n, until one goes through.
TEST_F(StoreFault, AFullDiskAtAnyWriteChangesNothingAndIsGotOverWithoutRestart) {
  for (const int code : {SQLITE_FULL, SQLITE_IOERR_WRITE}) {
    failure_code = code;
    const std::string job = submit("demo");
    enrol("pi-" + std::to_string(code));
    const RoundRow round = start_round(job, 1, {"pi-" + std::to_string(code)});
    const UpdateRow update = update_row(round, "pi-" + std::to_string(code));
    const std::size_t events = store_->list_events("", 0, 1'000)->size();
    int failures = 0;
    for (;; ++failures) {
      ASSERT_LT(failures, 100);
      writes_until_failure = failures;
      const Status accepted = store_->accept_update(update, round, event_at(300));
      writes_until_failure = -1;
      if (accepted) break;
      EXPECT_ERROR(accepted, kResourceExhausted, "disk_full");
      EXPECT_TRUE(store_->list_updates(job, 1)->empty());
      EXPECT_EQ(store_->list_events("", 0, 1'000)->size(), events);
    }
    EXPECT_GE(failures, 2) << "no write was made to fail";
    reopen();
    EXPECT_EQ(store_->list_updates(job, 1)->size(), 1U);
  }
}

TEST_F(StoreFault, AfterAFailedFlushNoWriteIsTakenUntilTheStoreIsOpenedAnew) {
  ASSERT_OK(store_->add_event(event_at(1)));
  flushes_fail = true;
  EXPECT_FALSE(store_->add_event(event_at(2)).has_value());
  flushes_fail = false;
  EXPECT_ERROR(store_->add_event(event_at(3)), kDataLoss, "store_sync_failed");
  ASSERT_OK(store_->list_events("", 0, 10));
  reopen();
  ASSERT_OK(store_->add_event(event_at(4)));
}

}  // namespace
}  // namespace muster
