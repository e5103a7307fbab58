#include "edge_client/pending_update.h"

#include <gmock/gmock.h>

#include "tests/edge_client/scripted_server.h"

namespace muster {
namespace {

using namespace testing;
namespace fs = std::filesystem;

class PendingUpdateTest : public ::testing::Test {
 protected:
  static StateDict state(float value) {
    StateDict made(must(StateLayout::create({{"w", {3}}})));
    for (float& v : made.values()) v = value;
    return made;
  }
  static std::vector<KeptState> kept(float value) {
    std::vector<KeptState> states;
    states.push_back({KeptKind::kCorrection, "SCAFFOLD", state(value)});
    states.push_back({KeptKind::kResidual, "top_k", state(10 * value)});
    return states;
  }
  fs::path pending(const std::string& name = {}) const { return folder_.path() / "pending" / name; }
  PendingUpdate open() const {
    return must(PendingUpdate::open(pending(), KeptStates(folder_.path() / "kept")));
  }
  protocol::UpdateStatement write(float value) const {
    protocol::UpdateStatement statement;
    statement.job = "job-1";
    statement.round = 1;
    statement.task = "task-1";
    statement.examples = 5;
    must(open().write(statement, as_bytes("the body"), kept(value)));
    return statement;
  }
  // Delivers an update that keeps `value`.
  void deliver(float value) const {
    write(value);
    must(open().accept("job-1"));
  }
  // The values that are kept of the job.
  std::vector<float> values() const {
    std::vector<float> found;
    const KeptStates states(folder_.path() / "kept");
    for (const auto& [kind, method] :
         {std::pair{KeptKind::kCorrection, "SCAFFOLD"}, std::pair{KeptKind::kResidual, "top_k"}}) {
      const auto one = states.read("job-1", kind, method, state(0).layout_ptr(),
                                   [](const std::string& text) { ADD_FAILURE() << text; });
      if (one) found.push_back(one->values()[0]);
    }
    return found;
  }

  TemporaryFolder folder_;
};

TEST_F(PendingUpdateTest, IsReadBackWithTheDigestOfTheBody) {
  const auto written = write(1);
  EXPECT_EQ(written.digest, sha256(std::string_view("the body")));
  const auto read = open().read();
  ASSERT_TRUE(read);
  EXPECT_EQ(protocol::statement_text(*read), protocol::statement_text(written));
  EXPECT_EQ(must(read_file(open().body(), 100)), "the body");
  EXPECT_TRUE(values().empty()) << "nothing is kept before the receipt";
}

TEST_F(PendingUpdateTest, WithTheReceiptTheStatesAreKeptAndNothingIsLeft) {
  deliver(1);
  EXPECT_EQ(values(), (std::vector<float>{1, 10}));
  EXPECT_TRUE(fs::is_empty(pending()));
  deliver(2);
  EXPECT_EQ(values(), (std::vector<float>{2, 20}));
}

TEST_F(PendingUpdateTest, ARefusalKeepsTheOldStates) {
  deliver(1);
  write(2);
  open().remove();
  EXPECT_EQ(values(), (std::vector<float>{1, 10}));
  EXPECT_TRUE(fs::is_empty(pending()));
}

// The device's folder as every step of `accept` leaves it, one after the other, ended by a crash.
TEST_F(PendingUpdateTest, ACrashAnywhereInAcceptEndsWithTheNewStates) {
  const fs::path kept_job = folder_.path() / "kept" / "job-1";
  const std::vector<std::function<void()>> steps{
      [] {}, [&] { fs::rename(pending("statement.json"), pending("accepted.json")); },
      [&] { fs::rename(pending("correction.safetensors"), kept_job / "correction.safetensors"); },
      [&] { fs::rename(pending("residual.safetensors"), kept_job / "residual.safetensors"); },
      [&] { fs::remove(pending("accepted.json")); }};
  for (std::size_t crash = 0; crash < steps.size(); ++crash) {
    SCOPED_TRACE(crash);
    deliver(1);
    write(2);
    for (std::size_t step = 0; step <= crash; ++step) steps[step]();
    const auto statement = open().read();
    EXPECT_EQ(statement.has_value(), crash == 0) << "sent again only while nothing says accepted";
    if (statement) must(open().accept(statement->job));
    EXPECT_EQ(values(), (std::vector<float>{2, 20}));
    EXPECT_FALSE(open().read());
    EXPECT_FALSE(PendingUpdate::look(pending()));
  }
}

// The files in the order in which `write` makes them: without the statement there is no update.
TEST_F(PendingUpdateTest, ACrashAnywhereInWriteKeepsTheOldStates) {
  for (const std::size_t files : {1U, 2U, 3U}) {
    deliver(1);
    write(2);
    const std::vector<const char*> order{"statement.json", "update.safetensors",
                                         "residual.safetensors"};
    for (std::size_t i = 0; i < files; ++i) fs::remove(pending(order[i]));
    EXPECT_FALSE(open().read());
    EXPECT_EQ(values(), (std::vector<float>{1, 10}));
    // What it left is not taken for the next update's.
    protocol::UpdateStatement next;
    next.job = "job-1";
    must(open().write(next, as_bytes("another body")));
    must(open().accept("job-1"));
    EXPECT_EQ(values(), (std::vector<float>{1, 10}));
  }
}

TEST_F(PendingUpdateTest, ADamagedBodyDropsTheUpdateAndWhatItWouldKeep) {
  deliver(1);
  write(2);
  must(write_file_durably(open().body(), as_bytes("damaged!")));
  EXPECT_FALSE(open().read());
  EXPECT_TRUE(fs::is_empty(pending()));
  EXPECT_EQ(values(), (std::vector<float>{1, 10}));
}

// What was kept is part of the update that was delivered: it may not be used again.
TEST_F(PendingUpdateTest, WhereTheStatesCannotBeKeptTheOldOnesGoToo) {
  deliver(1);
  write(2);
  fs::remove_all(folder_.path() / "kept" / "job-1");
  must(write_file_durably(folder_.path() / "kept" / "job-1", as_bytes("in the way")));
  const Status accepted = open().accept("job-1");
  ASSERT_FALSE(accepted);
  EXPECT_FALSE(open().read());
  EXPECT_TRUE(values().empty());
  EXPECT_TRUE(fs::is_empty(pending()));
}

}  // namespace
}  // namespace muster
