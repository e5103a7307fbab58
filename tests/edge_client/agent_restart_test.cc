#include <spawn.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>

#include "tests/edge_client/agent_fixture.h"

extern char** environ;

namespace muster {
namespace {

using namespace testing;
using Kind = AgentEvent::Kind;

constexpr const char* kFolderVariable = "MUSTER_TEST_AGENT_FOLDER";

// Not a test: the agent's process for the test below, which kills it.
TEST(AgentProcess, DISABLED_Run) {
  const char* folder = std::getenv(kFolderVariable);
  ASSERT_NE(folder, nullptr);
  const auto identity = must(DeviceIdentity::read(folder));
  TinyTrainer trainer;
  AgentOptions options;
  options.folder = folder;
  (void)run_agent(identity, trainer, options, {}, {}).has_value();
}

pid_t spawn_agent(const std::filesystem::path& folder) {
  setenv(kFolderVariable, folder.c_str(), 1);
  std::string program = "/proc/self/exe", filter = "--gtest_filter=AgentProcess.DISABLED_Run",
              disabled = "--gtest_also_run_disabled_tests";
  char* arguments[] = {program.data(), filter.data(), disabled.data(), nullptr};
  pid_t child = -1;
  if (posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ) != 0)
    throw std::runtime_error("spawn");
  return child;
}

TEST_F(AgentTest, E01_KilledBeforeTheReceiptItSendsTheSameUpdateAgainFirst) {
  Gate received;
  std::atomic<bool> killed = false;
  std::atomic<int> checkins_after = 0;
  std::atomic<int> checkins_before_upload = -1;
  on_update_ = [&](const ScriptedRequest& request) {
    if (!killed) {
      received.open();
      closing_.wait();
      return std::string();
    }
    checkins_before_upload = checkins_after.load();
    return receipt(request);
  };
  on_checkin_ = [&](const ScriptedRequest&) {
    if (!killed) return give(task());
    ++checkins_after;
    return nothing();
  };
  serve();
  identity_.emplace(world_.identity(folder_.path(), server_->port()));
  const pid_t child = spawn_agent(folder_.path());
  ASSERT_TRUE(received.wait());
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(is_pending());
  killed = true;

  start();
  EXPECT_EQ(wait_for(Kind::kUploaded).round, 1);
  EXPECT_TRUE(stop());
  EXPECT_EQ(uploads(), (std::vector{trained_digest(), trained_digest()}));
  EXPECT_EQ(checkins_before_upload, 0) << "what is left over is sent before anything else";
  EXPECT_EQ(trainer_.fits, 0) << "and not trained again";
  EXPECT_FALSE(is_pending());
}

TEST_F(AgentTest, APendingUpdateWhoseBodyIsDamagedIsNotSent) {
  on_update_ = [&](const ScriptedRequest&) { return std::string(); };
  start();
  (void)wait_for(Kind::kRetrying);
  EXPECT_TRUE(stop());
  ASSERT_TRUE(is_pending());
  must(write_file_durably(folder_.path() / "pending" / "update.safetensors", as_bytes("damaged")));

  const auto sent_before = uploads().size();
  on_checkin_ = [&](const ScriptedRequest&) { return http(503, ""); };
  identity_.reset();
  start();
  (void)wait_for(Kind::kRetrying);
  EXPECT_TRUE(stop());
  EXPECT_EQ(uploads().size(), sent_before);
  EXPECT_FALSE(is_pending());
}

}  // namespace
}  // namespace muster
