#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "tests/storage/store_fixture.h"

namespace muster {
namespace {

constexpr int kDevices = 400;

std::string device_name(int i) {
  return "d" + std::to_string(i);
}

class StoreCrash : public StoreTest {
 protected:
  // Straight into the file, as enrolling so many one by one says nothing here.
  void enrol_all() {
    store_.reset();
    SQLite::Database database(file(), SQLite::OPEN_READWRITE, 1000);
    SQLite::Transaction transaction(database);
    for (int i = 0; i < kDevices; ++i) {
      SQLite::Statement insert(database,
                               "INSERT INTO devices (device, certificate, public_key_hash, tags, "
                               "enrolled_at_ms, examples) VALUES (?, '', '', '[]', 1, 1)");
      insert.bind(1, device_name(i));
      insert.exec();
    }
    transaction.commit();
  }
};

// What the killed process does: accepts one update after another and says so only when the store
// did.
[[noreturn]] void accept_until_killed(const std::filesystem::path& file, RoundRow round, int pipe) {
  const auto store = Store::open(file);
  if (!store) ::_exit(1);
  for (int i = 0; i < kDevices; ++i) {
    round.machine = {{"count", i + 1}};
    const Status accepted =
        (*store)->accept_update(update_row(round, device_name(i)), round, event_at(i, "accepted"));
    if (!accepted || ::write(pipe, &i, sizeof i) != sizeof i) ::_exit(2);
  }
  for (;;) ::pause();
}

TEST_F(StoreCrash, NoAcknowledgedUpdateIsLostOrDoubledByAKill) {
  enrol_all();
  open();
  const std::string job = submit("demo");
  std::vector<std::string> devices;
  for (int i = 0; i < kDevices; ++i) devices.push_back(device_name(i));
  std::int64_t number = 0;
  for (const int kill_after : {1, 2, 7, 40, 150, 399}) {
    const RoundRow round = start_round(job, ++number, devices);
    store_.reset();
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      accept_until_killed(file(), round, ends[1]);
    }
    ::close(ends[1]);
    int acknowledged = -1;
    int last = -1;
    while (last + 1 < kill_after && ::read(ends[0], &last, sizeof last) == sizeof last) {
      acknowledged = last;
    }
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    while (::read(ends[0], &last, sizeof last) == sizeof last) acknowledged = last;
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
    ASSERT_GE(acknowledged + 1, kill_after);

    open();  // the dead process holds no lock
    std::map<std::string, int> rows;
    const auto updates = store_->list_updates(job, number);
    ASSERT_OK(updates);
    for (const UpdateRow& update : *updates) ++rows[update.device];
    for (int i = 0; i <= acknowledged; ++i) EXPECT_EQ(rows[device_name(i)], 1) << i;
    const int stored = static_cast<int>(updates->size());
    EXPECT_GE(stored, acknowledged + 1);
    EXPECT_LE(stored, acknowledged + 2) << "at most the one that was being acknowledged";
    EXPECT_EQ((**store_->find_round(job, number)).machine, (Json{{"count", stored}}))
        << "the machine counted what is stored";
  }
}

TEST_F(StoreCrash, TwoWritersAndAReaderAtOnceLoseNothing) {
  constexpr int kEach = 100;
  const auto write = [&](const std::string& kind) {
    for (int i = 0; i < kEach; ++i) {
      EXPECT_TRUE(store_->add_event(event_at(i, kind)).has_value());
    }
  };
  std::thread first(write, "first");
  std::thread second(write, "second");
  std::size_t seen = 0;
  while (seen < 2 * kEach) {
    const auto events = store_->list_events("", 0, 1'000);
    ASSERT_TRUE(events.has_value()) << events.error().message;
    EXPECT_GE(events->size(), seen) << "what was read once stays";
    seen = events->size();
  }
  first.join();
  second.join();
  reopen();
  std::map<std::string, std::int64_t> next;
  const auto events = store_->list_events("", 0, 1'000);
  for (const EventRow& event : *events) EXPECT_EQ(event.at_ms, next[event.kind]++);
  EXPECT_EQ(events->size(), std::size_t{2 * kEach});
}

}  // namespace
}  // namespace muster
