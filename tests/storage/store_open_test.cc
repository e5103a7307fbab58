#include <sys/stat.h>

#include <fstream>

#include "storage/schema.h"
#include "tests/storage/store_fixture.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

class StoreOpen : public StoreTest {};

mode_t mode_of(const fs::path& path) {
  struct stat found {};
  EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
  return found.st_mode & 07777;
}

TEST_F(StoreOpen, RefusesAFileThatIsNotThereAndSaysHowToMakeOne) {
  const auto store = Store::open(folder_.path() / "other.db");
  EXPECT_ERROR(store, kNotFound, "store_missing");
  EXPECT_NE(store.error().message.find("muster init"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_.path() / "other.db"));
}

TEST_F(StoreOpen, MakesAllItsFilesForThisUserOnlyWhateverTheUmask) {
  const mode_t before = ::umask(0);
  const auto store = Store::open(folder_.path() / "open.db", true);
  ::umask(before);
  ASSERT_OK(store);
  ASSERT_OK((*store)->add_event(event_at(1)));
  for (const char* suffix : {"", "-wal", "-shm", ".lock"}) {
    EXPECT_EQ(mode_of(folder_.path() / (std::string("open.db") + suffix)), 0600U) << suffix;
  }
}

TEST_F(StoreOpen, CreateOpensWhatIsThereAlready) {
  ASSERT_OK(store_->add_event(event_at(1)));
  store_.reset();
  open(true);
  EXPECT_EQ(store_->list_events("", 0, 10)->size(), 1U);
}

TEST_F(StoreOpen, RefusesASecondServerAndNamesTheFile) {
  const auto second = Store::open(file());
  EXPECT_ERROR(second, kFailedPrecondition, "locked");
  EXPECT_NE(second.error().message.find(file().string()), std::string::npos);
  EXPECT_NE(second.error().message.find("another muster serve"), std::string::npos);
  store_.reset();
  open();
}

TEST_F(StoreOpen, RefusesANewerSchemaAndLeavesItAsItIs) {
  store_.reset();
  run_sql("PRAGMA user_version = 99");
  EXPECT_ERROR(Store::open(file()), kFailedPrecondition, "schema_newer");
  EXPECT_EQ(query_text("PRAGMA user_version"), "99");
}

TEST_F(StoreOpen, RefusesAnotherProgramsDatabase) {
  const fs::path other = folder_.path() / "other.db";
  SQLite::Database(other.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("CREATE TABLE songs (title TEXT)");
  EXPECT_ERROR(Store::open(other, true), kFailedPrecondition, "foreign_database");
}

TEST_F(StoreOpen, RefusesAFileThatIsNoDatabaseWithTheNextStep) {
  for (const std::size_t length : {10U, 600U, 9000U}) {
    const fs::path other = folder_.path() / "text.db";
    std::ofstream(other) << std::string(length, 'x');
    fs::permissions(other, fs::perms::owner_read | fs::perms::owner_write);
    const auto store = Store::open(other);
    EXPECT_ERROR(store, kDataLoss, "store_damaged");
    EXPECT_NE(store.error().message.find("back-up"), std::string::npos);
    EXPECT_EQ(fs::file_size(other), length) << "it is left as it was";
  }
}

TEST_F(StoreOpen, RefusesAnEmptyFileUnlessItMayMakeOne) {
  const fs::path other = folder_.path() / "empty.db";
  std::ofstream(other).flush();
  fs::permissions(other, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_ERROR(Store::open(other), kDataLoss, "store_damaged");
  ASSERT_OK(Store::open(other, true));
}

TEST_F(StoreOpen, RefusesAFolderOrFileThatOthersMayWriteTo) {
  store_.reset();
  for (const fs::perms others : {fs::perms::group_write, fs::perms::others_write}) {
    for (const fs::path& path : {folder_.path(), file()}) {
      fs::permissions(path, others, fs::perm_options::add);
      const auto store = Store::open(file());
      EXPECT_ERROR(store, kFailedPrecondition, "insecure_folder");
      EXPECT_NE(store.error().message.find("chmod go-w " + path.string()), std::string::npos);
      fs::permissions(path, others, fs::perm_options::remove);
    }
  }
  open();
}

TEST_F(StoreOpen, ReportsDamageInsideTheFileInsteadOfAnEmptyAnswer) {
  // The damage is in a copy, as the end of this test looks at the file itself.
  std::vector<TokenRow> tokens;
  for (int i = 0; i < 2000; ++i) tokens.push_back(token_row(std::to_string(i)));
  ASSERT_OK(store_->add_tokens(tokens, event_at(1)));
  store_.reset();
  const fs::path copy = folder_.path() / "copy.db";
  fs::copy_file(file(), copy);
  fs::permissions(copy, fs::perms::owner_read | fs::perms::owner_write);
  const auto size = static_cast<std::streamoff>(fs::file_size(copy));
  {
    std::fstream bytes(copy, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(size / 2);
    bytes << std::string(static_cast<std::size_t>(size / 2), '\xa5');
  }
  const auto store = Store::open(copy);
  ASSERT_OK(store);
  EXPECT_ERROR((*store)->list_tokens(), kDataLoss, "store_damaged");
}

TEST_F(StoreOpen, ReportsAValueItCannotReadInsteadOfNotFound) {
  const std::string job = submit("demo");
  const std::string good = query_text("SELECT description FROM jobs");
  run_sql("PRAGMA ignore_check_constraints = ON; UPDATE jobs SET description = '{broken'");
  const auto found = store_->find_job(job);
  EXPECT_ERROR(found, kDataLoss, "store_damaged");
  EXPECT_NE(found.error().message.find("description"), std::string::npos);
  EXPECT_ERROR(store_->list_jobs(), kDataLoss, "store_damaged");
  run_sql("UPDATE jobs SET description = '" + good + "'");
  ASSERT_OK(store_->find_job(job));
}

TEST_F(StoreOpen, IsBusyWhileAnotherProgramHoldsTheFileAndStillReads) {
  ASSERT_OK(store_->add_event(event_at(1)));
  {
    SQLite::Database other(file(), SQLite::OPEN_READWRITE);
    SQLite::Transaction held(other, SQLite::TransactionBehavior::IMMEDIATE);
    EXPECT_ERROR(store_->add_event(event_at(2)), kUnavailable, "store_busy");
    EXPECT_EQ(store_->list_events("", 0, 10)->size(), 1U);
  }
  ASSERT_OK(store_->add_event(event_at(3)));
  EXPECT_EQ(store_->list_events("", 0, 10)->size(), 2U);
}

TEST_F(StoreOpen, MarksTheFileAsMustersInWalMode) {
  EXPECT_EQ(query_text("PRAGMA application_id"), std::to_string(kApplicationId));
  EXPECT_EQ(query_text("PRAGMA user_version"), std::to_string(migrations().size()));
  EXPECT_EQ(query_text("PRAGMA journal_mode"), "wal");
}

TEST(Schema, MigratesStepByStepAndAFailingStepLeavesNothing) {
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE);
  const std::vector<const char*> broken = {
      "CREATE TABLE one (a) STRICT", "CREATE TABLE one (a INTEGER) STRICT; CREATE TABLE two (b"};
  const std::vector<const char*> first = {"CREATE TABLE one (a INTEGER) STRICT"};
  EXPECT_THROW(migrate(database, broken), SQLite::Exception) << "STRICT wants a type";
  EXPECT_EQ(schema_version(database), 0);

  migrate(database, first);
  database.exec("INSERT INTO one VALUES (7)");
  const std::vector<const char*> half = {
      first[0], "CREATE TABLE two (b INTEGER) STRICT; CREATE TABLE one (a INTEGER)"};
  EXPECT_THROW(migrate(database, half), SQLite::Exception);
  EXPECT_EQ(schema_version(database), 1);
  EXPECT_FALSE(database.tableExists("two"));

  const std::vector<const char*> second = {first[0], "CREATE TABLE two (b INTEGER) STRICT"};
  migrate(database, second);
  EXPECT_EQ(schema_version(database), 2);
  EXPECT_EQ(database.execAndGet("SELECT a FROM one").getInt(), 7);
  ASSERT_OK(check_schema(database, second));
  EXPECT_ERROR(check_schema(database, first), kFailedPrecondition, "schema_newer");
}

}  // namespace
}  // namespace muster
