#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "storage/store.h"

namespace muster {

#define ASSERT_OK(expression)                                    \
  do {                                                           \
    const auto& checked = (expression);                          \
    ASSERT_TRUE(checked.has_value()) << checked.error().message; \
  } while (false)

// The error is of that code and reason.
#define EXPECT_ERROR(expression, wanted_code, wanted_reason)                     \
  do {                                                                           \
    const auto& failed = (expression);                                           \
    ASSERT_FALSE(failed.has_value());                                            \
    EXPECT_EQ(to_string(failed.error().code), to_string(ErrorCode::wanted_code)) \
        << failed.error().message;                                               \
    EXPECT_EQ(failed.error().reason, wanted_reason) << failed.error().message;   \
  } while (false)

// A private folder (0700) that goes with its content.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline EventRow event_at(std::int64_t at_ms, std::string kind = "tested") {
  EventRow event;
  event.at_ms = at_ms;
  event.kind = std::move(kind);
  return event;
}

inline TokenRow token_row(const std::string& secret, std::int64_t expires_at_ms = 1'000'000) {
  TokenRow token;
  token.secret_hash = sha256(secret);
  token.batch = "batch-1";
  token.created_at_ms = 1;
  token.expires_at_ms = expires_at_ms;
  token.tags = {"gpu"};
  token.created_by = "olga";
  return token;
}

inline DeviceRow device_row(const std::string& name, std::int64_t enrolled_at_ms = 1'000) {
  DeviceRow device;
  device.device = name;
  device.certificate = "-----BEGIN CERTIFICATE-----";
  device.public_key_hash = sha256(name).hex();
  device.enrolled_at_ms = enrolled_at_ms;
  return device;
}

inline JobRow job_row(const std::string& name) {
  JobRow job;
  job.description = {{"name", name}, {"seed", 1}};
  job.created_by = "olga";
  job.created_at_ms = 10;
  job.initial_state = sha256("initial " + name);
  return job;
}

inline RoundRow round_row(const std::string& job, std::int64_t round, std::int64_t attempt = 1) {
  RoundRow row;
  row.job = job;
  row.round = round;
  row.attempt = attempt;
  row.phase = "selecting";
  row.reason = "waiting for devices";
  row.machine = {{"reported", Json::array()}};
  row.seed = 18'446'744'073'709'551'615U;
  row.base = sha256("base");
  row.started_at_ms = 100;
  return row;
}

inline ParticipantRow participant_row(const RoundRow& round, const std::string& device) {
  return {round.job,
          round.round,
          round.attempt,
          device,
          "task-" + round.job + "-" + std::to_string(round.round) + "-" +
              std::to_string(round.attempt) + "-" + device,
          200,
          0,
          0};
}

inline UpdateRow update_row(const RoundRow& round, const std::string& device,
                            std::int64_t received_at_ms = 300) {
  UpdateRow update;
  update.job = round.job;
  update.round = round.round;
  update.attempt = round.attempt;
  update.device = device;
  update.digest = sha256("update of " + device);
  update.bytes = 800;
  update.examples = 600;
  update.steps = 60;
  update.metrics = {{"loss", 0.1}};
  update.received_at_ms = received_at_ms;
  update.accepted = true;
  update.statement = R"({"examples":600})";
  update.signature = "c2lnbmVk";
  return update;
}

// A fresh store on a real file. When the test ends, SQLite itself finds the file sound.
class StoreTest : public testing::Test {
 protected:
  void SetUp() override { open(true); }

  void TearDown() override {
    store_.reset();
    SQLite::Database database(file(), SQLite::OPEN_READWRITE);
    EXPECT_EQ(database.execAndGet("PRAGMA integrity_check").getString(), "ok");
    SQLite::Statement check(database, "PRAGMA foreign_key_check");
    EXPECT_FALSE(check.executeStep()) << "a row names another that is not there";
  }

  std::filesystem::path file() const { return folder_.path() / "muster.db"; }

  void open(bool create = false) {
    Result<std::unique_ptr<Store>> store =
        Store::open(file(), create, std::chrono::milliseconds(100));
    ASSERT_OK(store);
    store_ = *std::move(store);
  }
  // What the next calls see went through the file.
  void reopen() {
    store_.reset();
    open();
  }

  // Another program's hand in the file.
  void run_sql(const std::string& sql) {
    SQLite::Database database(file(), SQLite::OPEN_READWRITE, 1000);
    database.exec(sql);
  }
  std::string query_text(const std::string& sql) {
    SQLite::Database database(file(), SQLite::OPEN_READONLY, 1000);
    return database.execAndGet(sql).getString();
  }

  void enrol(const std::string& name) {
    ASSERT_OK(store_->add_tokens({token_row("secret of " + name)}, event_at(1)));
    ASSERT_OK(store_->redeem_token(sha256("secret of " + name), device_row(name), event_at(2)));
  }
  std::string submit(const std::string& name) {
    Result<std::string> job = store_->add_job(job_row(name), event_at(10, "job_submitted"));
    EXPECT_TRUE(job.has_value());
    return job.value_or("");
  }
  // A job with one round in training, whose participants are the devices.
  RoundRow start_round(const std::string& job, std::int64_t number,
                       const std::vector<std::string>& devices, std::int64_t attempt = 1) {
    RoundRow round = round_row(job, number, attempt);
    EXPECT_TRUE(store_->begin_round(round, event_at(100, "round_begun")).has_value());
    round.phase = "training";
    std::vector<ParticipantRow> participants;
    for (const std::string& device : devices) {
      participants.push_back(participant_row(round, device));
    }
    const Status saved = store_->save_selection(round, participants, event_at(200, "selected"));
    EXPECT_TRUE(saved.has_value()) << (saved ? "" : saved.error().message);
    return round;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
};

}  // namespace muster
