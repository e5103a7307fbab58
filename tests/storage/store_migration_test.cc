#include <fmt/format.h>

#include "storage/schema.h"
#include "tests/storage/store_fixture.h"

// Databases of earlier versions of the schema, with what was in them.
namespace muster {
namespace {

std::string digest_text(const std::string& of) {
  return sha256(of).hex();
}

class StoreMigration : public testing::Test {
 protected:
  std::filesystem::path file() const { return folder_.path() / "muster.db"; }

  // A file that a Muster with the first script alone wrote: a job with one round committed and one
  // in training.
  void write_version_1() {
    SQLite::Database database(file(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    migrate(database, migrations().first(1));
    ASSERT_EQ(schema_version(database), 1);
    database.exec(fmt::format(R"sql(
INSERT INTO devices VALUES ('pi-1', 'pem', '{0}', '[]', 1, NULL, 0), ('pi-2', 'pem', '{1}', '[]', 1, NULL, 0);
INSERT INTO jobs VALUES ('demo-1', 'demo', 1, '{{"name":"demo"}}', 'running', '', 'olga', 10, NULL, '{2}', '{3}', 1);
INSERT INTO rounds VALUES
  ('demo-1', 1, 1, 'committed', '', '{{}}', '7', '{2}', '{3}', 100, 200, '{{"updates":1}}', 5, 6),
  ('demo-1', 2, 1, 'training', '', '{{}}', '8', '{3}', NULL, 300, NULL, '{{}}', 0, 0);
INSERT INTO participants VALUES ('demo-1', 1, 1, 'pi-1', 'task-a', 110), ('demo-1', 2, 1, 'pi-1', 'task-b', 310),
  ('demo-1', 2, 1, 'pi-2', 'task-c', 310);
INSERT INTO updates (job, round, attempt, device, verdict, reason, detail, digest, bytes, examples, steps, metrics,
                     received_at_ms, statement, signature)
VALUES ('demo-1', 1, 1, 'pi-1', 'accepted', '', '', '{4}', 80, 6, 3, '{{}}', 120, '{{}}', 'c2ln'),
       ('nobody-1', 0, 1, 'pi-9', 'refused', 'job_unknown', 'there is no job', NULL, 0, 0, 0, '{{}}', 130, '', '');
INSERT INTO events VALUES (1, 10, 'job_submitted', 'demo-1', NULL, 'olga', '{{}}');
)sql",
                              digest_text("key 1"), digest_text("key 2"), digest_text("initial"),
                              digest_text("first"), digest_text("update")));
    std::filesystem::permissions(file(), std::filesystem::perms(0600));
  }

  TemporaryFolder folder_;
};

TEST_F(StoreMigration, ADatabaseOfVersion1KeepsEveryRow) {
  write_version_1();
  const auto opened = Store::open(file());
  ASSERT_OK(opened);
  const Store& store = **opened;

  const JobRow job = **store.find_job("demo-1");
  EXPECT_EQ(job.global_state, sha256("first"));
  EXPECT_EQ(job.rule_state, std::nullopt);
  const auto rounds = store.list_rounds("demo-1");
  ASSERT_OK(rounds);
  ASSERT_EQ(rounds->size(), 2U);
  EXPECT_EQ((*rounds)[0].state, sha256("first"));
  EXPECT_EQ((*rounds)[0].bytes_up, 6);
  EXPECT_EQ((*rounds)[0].rule_state, std::nullopt);
  const auto participants = store.list_participants("demo-1", 2, 1);
  ASSERT_OK(participants);
  EXPECT_EQ(*participants,
            (std::vector<ParticipantRow>{{"demo-1", 2, 1, "pi-1", "task-b", 310, 0, 0},
                                         {"demo-1", 2, 1, "pi-2", "task-c", 310, 0, 0}}));
  const auto update = store.find_update_of_task("task-a", "pi-1");
  ASSERT_OK(update);
  ASSERT_TRUE(update->has_value());
  EXPECT_EQ((**update).digest, sha256("update"));
  EXPECT_EQ((**update).staleness, 0);
  EXPECT_EQ(store.list_updates("nobody-1", 0)->size(), 1U);
  EXPECT_EQ(store.list_events("", 0, 10)->size(), 1U);
  EXPECT_TRUE(*store.names_state(sha256("first")));
}

TEST_F(StoreMigration, ADatabaseOfVersion1GoesOnInTheNewSchema) {
  write_version_1();
  {
    const auto opened = Store::open(file());
    ASSERT_OK(opened);
    Store& store = **opened;
    RoundRow round = **store.find_round("demo-1", 2);
    UpdateRow update = update_row(round, "pi-2");
    ASSERT_OK(store.accept_update(update, round, event_at(320)));
    round.state = sha256("second");
    round.rule_state = sha256("moments");
    ASSERT_OK(store.commit_round(round, JobStatus::kRunning, "", event_at(330)));
    EXPECT_EQ((**store.find_job("demo-1")).rule_state, sha256("moments"));
  }
  SQLite::Database database(file(), SQLite::OPEN_READWRITE);
  EXPECT_EQ(schema_version(database), static_cast<std::int64_t>(migrations().size()));
  EXPECT_EQ(database.execAndGet("PRAGMA integrity_check").getString(), "ok");
  SQLite::Statement check(database, "PRAGMA foreign_key_check");
  EXPECT_FALSE(check.executeStep());
  EXPECT_THROW(
      database.exec("INSERT INTO updates (job, round, attempt, device, verdict, reason, "
                    "detail, digest, bytes, examples, steps, metrics, received_at_ms, "
                    "statement, signature) SELECT 'demo-1', 2, 1, 'pi-7', verdict, reason, "
                    "detail, digest, bytes, examples, steps, metrics, received_at_ms, "
                    "statement, signature FROM updates WHERE verdict = 'accepted'"),
      SQLite::Exception)
      << "the trigger that admits participants only was made again";
}

}  // namespace
}  // namespace muster
