#include <SQLiteCpp/Backup.h>

#include <fstream>
#include <sstream>

#include "storage/state_files.h"
#include "tests/storage/store_fixture.h"

namespace muster {
namespace {

std::string documentation() {
  std::ifstream file(std::string(MUSTER_SOURCE_DIR) + "/docs/storage.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> documented_queries() {
  const std::string text = documentation();
  const std::string opening = "```sql\n";
  std::vector<std::string> queries;
  for (std::size_t at = text.find(opening); at != std::string::npos; at = text.find(opening, at)) {
    at += opening.size();
    queries.push_back(text.substr(at, text.find("```", at) - at));
  }
  return queries;
}

// Two rounds of which the first was abandoned once, with everything in it that can be asked for.
class StoreDocs : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    enrol("pi-1");
    enrol("pi-2");
    ASSERT_OK(store_->add_tokens({token_row("open")}, event_at(3)));
    job_ = submit("demo");
    const RoundRow first = start_round(job_, 1, {"pi-1", "pi-2"});
    UpdateRow refused = update_row(first, "pi-2");
    refused.reason = "non_finite";
    refused.detail = "fc1.weight[3] is nan";
    ASSERT_OK(store_->refuse_update(refused, event_at(300)));
    ASSERT_OK(store_->abandon_round(first, JobStatus::kRunning, "", event_at(400)));
    RoundRow second = start_round(job_, 1, {"pi-1", "pi-2"}, 2);
    ASSERT_OK(store_->accept_update(update_row(second, "pi-1"), second, event_at(500)));
    UpdateRow heavier = update_row(second, "pi-2");
    heavier.examples = 1'800;
    ASSERT_OK(store_->accept_update(heavier, second, event_at(500)));
    second.state = sha256("new state");
    second.metrics = {{"test_accuracy", 0.84239}, {"train_loss", 0.25}};
    second.ended_at_ms = 2'600;
    ASSERT_OK(store_->commit_round(second, JobStatus::kRunning, "", event_at(2'600)));
  }
  std::string job_;
};

TEST_F(StoreDocs, EveryQueryRunsAndFindsSomething) {
  const std::vector<std::string> queries = documented_queries();
  EXPECT_GE(queries.size(), 6U);
  SQLite::Database database(file(), SQLite::OPEN_READONLY);
  for (const std::string& query : queries) {
    SQLite::Statement statement(database, query);
    EXPECT_TRUE(statement.executeStep()) << query;
  }
}

TEST_F(StoreDocs, TheQueryForAStateFileNamesTheFileThatStateFilesKeeps) {
  const auto files = StateFiles::open(folder_.path() / "states");
  ASSERT_OK(files);
  SQLite::Database database(file(), SQLite::OPEN_READONLY);
  int found = 0;
  for (const std::string& query : documented_queries()) {
    if (query.find("AS file") == std::string::npos) continue;
    SQLite::Statement statement(database, query);
    ASSERT_TRUE(statement.executeStep());
    EXPECT_EQ(folder_.path() / statement.getColumn("file").getString(),
              files->path_of(sha256("new state")));
    ++found;
  }
  EXPECT_EQ(found, 1);
}

TEST_F(StoreDocs, EveryTableViewAndColumnIsDescribed) {
  const std::string text = documentation();
  SQLite::Database database(file(), SQLite::OPEN_READONLY);
  SQLite::Statement columns(
      database,
      "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c "
      "WHERE t.type IN ('table', 'view') AND t.name NOT LIKE 'sqlite_%'");
  int found = 0;
  while (columns.executeStep()) {
    ++found;
    const std::string table = columns.getColumn(0).getString();
    const std::string column = columns.getColumn(1).getString();
    std::size_t begin = text.find("\n### " + table + "\n");
    std::size_t end = text.find("\n### ", begin + 1);
    if (begin == std::string::npos) {
      begin = text.find("\n| `" + table + "` |");
      ASSERT_NE(begin, std::string::npos) << table << " is not described";
      end = text.find('\n', begin + 1);
    }
    EXPECT_NE(text.substr(begin, end - begin).find("`" + column + "`"), std::string::npos)
        << table << "." << column << " is not described";
  }
  EXPECT_GT(found, 60);
}

TEST_F(StoreDocs, TheRoundSummaryCountsWhatAPersonWouldCount) {
  SQLite::Database database(file(), SQLite::OPEN_READONLY);
  SQLite::Statement summary(database,
                            "SELECT invited, accepted, refused, examples, test_accuracy, seconds, "
                            "phase FROM round_summary WHERE job = ? ORDER BY round, attempt");
  summary.bind(1, job_);
  ASSERT_TRUE(summary.executeStep());
  EXPECT_EQ(summary.getColumn(0).getInt(), 2);
  EXPECT_EQ(summary.getColumn(1).getInt(), 0);
  EXPECT_EQ(summary.getColumn(2).getInt(), 1);
  EXPECT_EQ(summary.getColumn(6).getString(), "abandoned");
  ASSERT_TRUE(summary.executeStep());
  EXPECT_EQ(summary.getColumn(1).getInt(), 2);
  EXPECT_EQ(summary.getColumn(2).getInt(), 0);
  EXPECT_EQ(summary.getColumn(3).getInt(), 2'400);
  EXPECT_EQ(summary.getColumn(4).getDouble(), 0.84239);
  EXPECT_EQ(summary.getColumn(5).getDouble(), 2.5);
  EXPECT_FALSE(summary.executeStep());
}

TEST_F(StoreDocs, TheStatesViewNamesTheInitialAndEachCommittedState) {
  SQLite::Database database(file(), SQLite::OPEN_READONLY);
  SQLite::Statement states(database, "SELECT round, digest FROM states ORDER BY round");
  ASSERT_TRUE(states.executeStep());
  EXPECT_EQ(states.getColumn(1).getString(), sha256("initial demo").hex());
  ASSERT_TRUE(states.executeStep());
  EXPECT_EQ(states.getColumn(0).getInt(), 1);
  EXPECT_EQ(states.getColumn(1).getString(), sha256("new state").hex());
  EXPECT_FALSE(states.executeStep());
}

TEST_F(StoreDocs, ABackUpMadeBesideTheRunningStoreOpensAndACopyOfTheFileAloneLacksRows) {
  const std::filesystem::path backup = folder_.path() / "backup.db";
  {
    SQLite::Database source(file(), SQLite::OPEN_READONLY);
    SQLite::Database target(backup, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    SQLite::Backup(target, source).executeStep();
  }
  std::filesystem::permissions(backup, std::filesystem::perms(0600));
  const auto restored = Store::open(backup);
  ASSERT_OK(restored);
  EXPECT_EQ((**(*restored)->find_job(job_)).rounds_committed, 1);

  const std::filesystem::path copy = folder_.path() / "copy.db";
  std::filesystem::copy_file(file(), copy);
  std::filesystem::permissions(copy, std::filesystem::perms(0600));
  const auto copied = Store::open(copy);
  const bool complete =
      copied && (*copied)->find_job(job_) && (*copied)->find_job(job_)->has_value();
  EXPECT_FALSE(complete) << "docs/storage.md warns of this";
}

}  // namespace
}  // namespace muster
