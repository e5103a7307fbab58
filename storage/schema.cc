#include "storage/schema.h"

#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>

#include <array>

namespace muster {
namespace {

// Comments inside the statements are kept by SQLite and shown by `.schema`.
// With trusted_schema = OFF, SQLite 3.40 admits no JSON function in a check or trigger, so these
// look at the shape of a JSON text only; views, which Muster itself does not read, may use them.
constexpr const char* kTables = R"sql(
CREATE TABLE devices (
  device           TEXT NOT NULL PRIMARY KEY,
  certificate      TEXT NOT NULL,      -- PEM
  public_key_hash  TEXT NOT NULL,      -- hex SHA-256 of the public key (SubjectPublicKeyInfo, DER)
  tags             TEXT NOT NULL CHECK (tags GLOB '[[]*]'),
  enrolled_at_ms   INTEGER NOT NULL,
  last_seen_at_ms  INTEGER,            -- NULL: not since it enrolled
  examples         INTEGER NOT NULL CHECK (examples >= 0)
) STRICT;

CREATE TABLE tokens (
  secret_hash      TEXT NOT NULL PRIMARY KEY
                   CHECK (length(secret_hash) = 64 AND secret_hash NOT GLOB '*[^0-9a-f]*'),
  batch            TEXT NOT NULL,
  created_at_ms    INTEGER NOT NULL,
  expires_at_ms    INTEGER NOT NULL,
  tags             TEXT NOT NULL CHECK (tags GLOB '[[]*]'),
  created_by       TEXT NOT NULL,
  used_at_ms       INTEGER,            -- NULL: not used
  used_by          TEXT REFERENCES devices (device),
  CHECK ((used_at_ms IS NULL) = (used_by IS NULL))
) STRICT;

CREATE TABLE jobs (
  job              TEXT NOT NULL PRIMARY KEY,   -- name, a dash and number
  name             TEXT NOT NULL,
  number           INTEGER NOT NULL CHECK (number >= 1),
  description      TEXT NOT NULL CHECK (description GLOB '{*}'),
  status           TEXT NOT NULL CHECK (status IN ('running', 'paused', 'stopped', 'finished')),
  status_reason    TEXT NOT NULL,
  created_by       TEXT NOT NULL,
  created_at_ms    INTEGER NOT NULL,
  finished_at_ms   INTEGER,            -- NULL: running or paused
  initial_state    TEXT NOT NULL
                   CHECK (length(initial_state) = 64 AND initial_state NOT GLOB '*[^0-9a-f]*'),
  global_state     TEXT NOT NULL
                   CHECK (length(global_state) = 64 AND global_state NOT GLOB '*[^0-9a-f]*'),
  rounds_committed INTEGER NOT NULL CHECK (rounds_committed >= 0),
  UNIQUE (name, number)
) STRICT;

CREATE TABLE rounds (
  job              TEXT NOT NULL REFERENCES jobs (job),
  round            INTEGER NOT NULL CHECK (round >= 1),
  attempt          INTEGER NOT NULL CHECK (attempt >= 1),
  phase            TEXT NOT NULL
                   CHECK (phase IN ('selecting', 'training', 'aggregating', 'committed', 'abandoned')),
  reason           TEXT NOT NULL,
  machine          TEXT NOT NULL,      -- JSON
  seed             TEXT NOT NULL CHECK (seed <> '' AND seed NOT GLOB '*[^0-9]*'),  -- may pass 2^63
  base             TEXT NOT NULL CHECK (length(base) = 64 AND base NOT GLOB '*[^0-9a-f]*'),
  state            TEXT CHECK (length(state) = 64 AND state NOT GLOB '*[^0-9a-f]*'),
  started_at_ms    INTEGER NOT NULL,
  ended_at_ms      INTEGER,            -- NULL: goes on
  metrics          TEXT NOT NULL CHECK (metrics GLOB '{*}'),
  bytes_down       INTEGER NOT NULL CHECK (bytes_down >= 0),
  bytes_up         INTEGER NOT NULL CHECK (bytes_up >= 0),
  PRIMARY KEY (job, round, attempt),
  CHECK ((phase = 'committed') = (state IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX rounds_committed_once ON rounds (job, round) WHERE phase = 'committed';

CREATE TABLE participants (
  job              TEXT NOT NULL,
  round            INTEGER NOT NULL,
  attempt          INTEGER NOT NULL,
  device           TEXT NOT NULL REFERENCES devices (device),
  task             TEXT NOT NULL UNIQUE,
  invited_at_ms    INTEGER NOT NULL,
  PRIMARY KEY (job, round, attempt, device),
  FOREIGN KEY (job, round, attempt) REFERENCES rounds (job, round, attempt)
) STRICT;
CREATE INDEX participants_by_device ON participants (device);

-- A refused update may name what does not exist, so only accepted ones are held to the participants.
CREATE TABLE updates (
  id               INTEGER PRIMARY KEY AUTOINCREMENT,
  job              TEXT NOT NULL,
  round            INTEGER NOT NULL,
  attempt          INTEGER NOT NULL,
  device           TEXT NOT NULL,
  verdict          TEXT NOT NULL CHECK (verdict IN ('accepted', 'refused')),
  reason           TEXT NOT NULL,      -- of a refusal: a stable word
  detail           TEXT NOT NULL,      -- and a sentence
  digest           TEXT CHECK (length(digest) = 64 AND digest NOT GLOB '*[^0-9a-f]*'),
  bytes            INTEGER NOT NULL CHECK (bytes >= 0),
  examples         INTEGER NOT NULL,
  steps            INTEGER NOT NULL,
  metrics          TEXT NOT NULL CHECK (metrics GLOB '{*}'),
  received_at_ms   INTEGER NOT NULL,
  statement        TEXT NOT NULL,      -- the JSON that the device signed, as sent
  signature        TEXT NOT NULL,      -- base64
  CHECK (verdict = 'refused' OR (digest IS NOT NULL AND examples >= 1 AND reason = ''))
) STRICT;
CREATE UNIQUE INDEX updates_accepted_once ON updates (job, round, attempt, device)
  WHERE verdict = 'accepted';
CREATE INDEX updates_by_round ON updates (job, round, attempt, verdict);
CREATE INDEX updates_by_device ON updates (device, verdict);
CREATE TRIGGER updates_accepted_from_participants BEFORE INSERT ON updates
  WHEN NEW.verdict = 'accepted' AND NOT EXISTS
    (SELECT 1 FROM participants p WHERE p.job = NEW.job AND p.round = NEW.round
       AND p.attempt = NEW.attempt AND p.device = NEW.device)
BEGIN SELECT RAISE(ABORT, 'an accepted update must be of a participant'); END;

CREATE TABLE evaluations (
  task             TEXT NOT NULL PRIMARY KEY,
  job              TEXT NOT NULL REFERENCES jobs (job),
  round            INTEGER NOT NULL,
  device           TEXT NOT NULL REFERENCES devices (device),
  asked_at_ms      INTEGER NOT NULL,
  answered_at_ms   INTEGER,            -- NULL: not yet
  examples         INTEGER NOT NULL CHECK (examples >= 0),
  metrics          TEXT NOT NULL CHECK (metrics GLOB '{*}')
) STRICT;
CREATE INDEX evaluations_by_round ON evaluations (job, round, device);

CREATE TABLE events (
  sequence         INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ms            INTEGER NOT NULL,
  kind             TEXT NOT NULL,
  job              TEXT,               -- NULL: concerns none
  round            INTEGER,            -- NULL: concerns none
  actor            TEXT,               -- device or operator; NULL: the server
  details          TEXT NOT NULL CHECK (details GLOB '{*}')
) STRICT;
CREATE INDEX events_by_job ON events (job, sequence);
CREATE TRIGGER events_no_update BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
-- INSERT OR REPLACE deletes without asking the trigger above.
CREATE TRIGGER events_no_replace BEFORE INSERT ON events
  WHEN EXISTS (SELECT 1 FROM events WHERE sequence = NEW.sequence)
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

CREATE VIEW round_summary AS
SELECT r.job, r.round, r.attempt, r.phase,
       (SELECT count(*) FROM participants p
         WHERE p.job = r.job AND p.round = r.round AND p.attempt = r.attempt) AS invited,
       (SELECT count(*) FROM updates u WHERE u.job = r.job AND u.round = r.round
           AND u.attempt = r.attempt AND u.verdict = 'accepted') AS accepted,
       (SELECT count(*) FROM updates u WHERE u.job = r.job AND u.round = r.round
           AND u.attempt = r.attempt AND u.verdict = 'refused') AS refused,
       (SELECT sum(u.examples) FROM updates u WHERE u.job = r.job AND u.round = r.round
           AND u.attempt = r.attempt AND u.verdict = 'accepted') AS examples,
       r.metrics ->> '$.train_loss' AS train_loss,
       r.metrics ->> '$.test_loss' AS test_loss,
       r.metrics ->> '$.test_accuracy' AS test_accuracy,
       r.metrics ->> '$.eval_accuracy' AS eval_accuracy,
       (r.ended_at_ms - r.started_at_ms) / 1000.0 AS seconds,
       r.bytes_down, r.bytes_up,
       datetime(r.started_at_ms / 1000, 'unixepoch') AS started_utc,
       r.reason
  FROM rounds r;

CREATE VIEW device_summary AS
SELECT d.device, d.tags, d.examples,
       datetime(d.enrolled_at_ms / 1000, 'unixepoch') AS enrolled_utc,
       datetime(d.last_seen_at_ms / 1000, 'unixepoch') AS last_seen_utc,
       (SELECT count(*) FROM participants p WHERE p.device = d.device) AS invited,
       (SELECT count(*) FROM updates u
         WHERE u.device = d.device AND u.verdict = 'accepted') AS accepted,
       (SELECT count(*) FROM updates u
         WHERE u.device = d.device AND u.verdict = 'refused') AS refused
  FROM devices d;

-- Every global state: round 0 is the one that the job began with.
CREATE VIEW states AS
SELECT job, 0 AS round, initial_state AS digest FROM jobs
UNION ALL
SELECT job, round, state FROM rounds WHERE state IS NOT NULL;
)sql";

// What aggregation rules keep between rounds; asynchronous rounds, whose tasks outlive them.
constexpr const char* kRuleStates = R"sql(
ALTER TABLE jobs ADD COLUMN rule_state TEXT   -- NULL: the aggregation keeps nothing
  CHECK (length(rule_state) = 64 AND rule_state NOT GLOB '*[^0-9a-f]*');
ALTER TABLE rounds ADD COLUMN rule_state TEXT -- NULL: not committed, or nothing is kept
  CHECK (rule_state IS NULL OR (length(rule_state) = 64 AND rule_state NOT GLOB '*[^0-9a-f]*'
                                AND phase = 'committed'));
ALTER TABLE updates ADD COLUMN staleness INTEGER NOT NULL DEFAULT 0
  CHECK (staleness BETWEEN 0 AND round - 1 OR verdict = 'refused');

-- A task that is carried over has a row in each round it was open in, so its id is unique only
-- among those rows that gave one. A table's constraint cannot be dropped: it is made anew, and so
-- is what names it.
DROP VIEW round_summary;
DROP VIEW device_summary;
DROP VIEW states;
DROP TRIGGER updates_accepted_from_participants;
ALTER TABLE participants RENAME TO participants_1;
CREATE TABLE participants (
  job              TEXT NOT NULL,
  round            INTEGER NOT NULL,
  attempt          INTEGER NOT NULL,
  device           TEXT NOT NULL REFERENCES devices (device),
  task             TEXT NOT NULL,
  invited_at_ms    INTEGER NOT NULL,
  began_round      INTEGER,            -- of a task carried over: where it was given;
  began_attempt    INTEGER,            -- NULL: here
  PRIMARY KEY (job, round, attempt, device),
  FOREIGN KEY (job, round, attempt) REFERENCES rounds (job, round, attempt),
  FOREIGN KEY (job, began_round, began_attempt) REFERENCES rounds (job, round, attempt),
  CHECK ((began_round IS NULL) = (began_attempt IS NULL)),
  CHECK (began_round < round)
) STRICT;
INSERT INTO participants (job, round, attempt, device, task, invited_at_ms)
SELECT job, round, attempt, device, task, invited_at_ms FROM participants_1;
DROP TABLE participants_1;
CREATE INDEX participants_by_device ON participants (device);
CREATE INDEX participants_by_task ON participants (task);
CREATE UNIQUE INDEX participants_task_given_once ON participants (task) WHERE began_round IS NULL;
CREATE TRIGGER updates_accepted_from_participants BEFORE INSERT ON updates
  WHEN NEW.verdict = 'accepted' AND NOT EXISTS
    (SELECT 1 FROM participants p WHERE p.job = NEW.job AND p.round = NEW.round
       AND p.attempt = NEW.attempt AND p.device = NEW.device)
BEGIN SELECT RAISE(ABORT, 'an accepted update must be of a participant'); END;

CREATE VIEW round_summary AS
SELECT r.job, r.round, r.attempt, r.phase,
       (SELECT count(*) FROM participants p
         WHERE p.job = r.job AND p.round = r.round AND p.attempt = r.attempt) AS invited,
       (SELECT count(*) FROM updates u WHERE u.job = r.job AND u.round = r.round
           AND u.attempt = r.attempt AND u.verdict = 'accepted') AS accepted,
       (SELECT count(*) FROM updates u WHERE u.job = r.job AND u.round = r.round
           AND u.attempt = r.attempt AND u.verdict = 'refused') AS refused,
       (SELECT sum(u.examples) FROM updates u WHERE u.job = r.job AND u.round = r.round
           AND u.attempt = r.attempt AND u.verdict = 'accepted') AS examples,
       (SELECT avg(u.staleness) FROM updates u WHERE u.job = r.job AND u.round = r.round
           AND u.attempt = r.attempt AND u.verdict = 'accepted') AS staleness,
       r.metrics ->> '$.train_loss' AS train_loss,
       r.metrics ->> '$.test_loss' AS test_loss,
       r.metrics ->> '$.test_accuracy' AS test_accuracy,
       r.metrics ->> '$.eval_accuracy' AS eval_accuracy,
       (r.ended_at_ms - r.started_at_ms) / 1000.0 AS seconds,
       r.bytes_down, r.bytes_up,
       datetime(r.started_at_ms / 1000, 'unixepoch') AS started_utc,
       r.reason
  FROM rounds r;

CREATE VIEW device_summary AS
SELECT d.device, d.tags, d.examples,
       datetime(d.enrolled_at_ms / 1000, 'unixepoch') AS enrolled_utc,
       datetime(d.last_seen_at_ms / 1000, 'unixepoch') AS last_seen_utc,
       (SELECT count(*) FROM participants p
         WHERE p.device = d.device AND p.began_round IS NULL) AS invited,
       (SELECT count(*) FROM updates u
         WHERE u.device = d.device AND u.verdict = 'accepted') AS accepted,
       (SELECT count(*) FROM updates u
         WHERE u.device = d.device AND u.verdict = 'refused') AS refused
  FROM devices d;

-- Every state that is kept: the global ones (round 0 is the one that the job began with), and what
-- the aggregation keeps beside them.
CREATE VIEW states AS
SELECT job, 0 AS round, 'global' AS kind, initial_state AS digest FROM jobs
UNION ALL
SELECT job, round, 'global', state FROM rounds WHERE state IS NOT NULL
UNION ALL
SELECT job, round, 'rule', rule_state FROM rounds WHERE rule_state IS NOT NULL;
)sql";

constexpr std::array<const char*, 2> kMigrations = {kTables, kRuleStates};

std::int64_t pragma(SQLite::Database& database, const char* statement) {
  return database.execAndGet(statement).getInt64();
}

}  // namespace

std::span<const char* const> migrations() {
  return kMigrations;
}

std::int64_t schema_version(SQLite::Database& database) {
  return pragma(database, "PRAGMA user_version");
}

Status check_schema(SQLite::Database& database, std::span<const char* const> scripts) {
  const std::int64_t application = pragma(database, "PRAGMA application_id");
  const std::int64_t objects = pragma(database, "SELECT count(*) FROM sqlite_schema");
  if (application != kApplicationId && (application != 0 || objects != 0)) {
    return Error{ErrorCode::kFailedPrecondition,
                 fmt::format("it is a database of another program (application_id {}, wanted {}); "
                             "name another file",
                             application, kApplicationId),
                 "foreign_database"};
  }
  const std::int64_t found = schema_version(database);
  const auto newest = static_cast<std::int64_t>(scripts.size());
  if (found > newest) {
    return Error{
        ErrorCode::kFailedPrecondition,
        fmt::format("its schema has version {}, this Muster knows up to {}; it was written "
                    "by a newer Muster, so run that one or restore an older back-up",
                    found, newest),
        "schema_newer"};
  }
  return {};
}

void migrate(SQLite::Database& database, std::span<const char* const> scripts) {
  for (auto version = static_cast<std::size_t>(schema_version(database)); version < scripts.size();
       ++version) {
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    database.exec(scripts[version]);
    database.exec(fmt::format("PRAGMA application_id = {}", kApplicationId));
    database.exec(fmt::format("PRAGMA user_version = {}", version + 1));
    transaction.commit();
  }
}

}  // namespace muster
