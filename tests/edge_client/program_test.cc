#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>

#include "certs/enrolment_code.h"
#include "tests/edge_client/scripted_server.h"

extern char** environ;

namespace muster {
namespace {

using namespace testing;
using ::testing::HasSubstr;

// The muster-edge program as its users meet it: arguments, output, exit codes, signals.
class ProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::exists(MUSTER_EDGE_BINARY))
        << "build the target muster-edge first";
    must(write_file_durably(data_, as_bytes("a,b,label\n1,2,0\n3,4,1\n5,6,0\n7,8,1\n")));
    std::filesystem::create_directory(device_);
  }
  pid_t start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), MUSTER_EDGE_BINARY);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const int flags = O_CREAT | O_WRONLY | O_TRUNC;
    posix_spawn_file_actions_addopen(&actions, 1, output_.c_str(), flags, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, errors_.c_str(), flags, 0600);
    pid_t child = -1;
    if (posix_spawn(&child, MUSTER_EDGE_BINARY, &actions, nullptr, pointers.data(), environ) != 0) {
      throw std::runtime_error("spawn");
    }
    posix_spawn_file_actions_destroy(&actions);
    return child;
  }
  static int wait_for_exit(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int run(std::vector<std::string> arguments) { return wait_for_exit(start(std::move(arguments))); }
  std::vector<std::string> run_arguments() const {
    return {"run", "--dir", device_.string(), "--data",
            std::string("csv:").append(data_.string()).append(";target=label")};
  }
  std::string output() const { return must(read_file(output_, 1 << 20)); }
  std::string errors() const { return must(read_file(errors_, 1 << 20)); }

  World world_;
  TemporaryFolder folder_;
  std::filesystem::path device_ = folder_.path() / "device", data_ = folder_.path() / "data.csv",
                        output_ = folder_.path() / "out", errors_ = folder_.path() / "err";
};

TEST_F(ProgramTest, EnrollsWithACodeFromAFileAndShowsItsStatus) {
  const auto code = must(EnrolmentCode::generate(world_.authority.certificate().fingerprint()));
  const ScriptedServer server(
      world_.server, world_.authority.certificate(), nullptr,
      answering([&](const ScriptedRequest& request) {
        const auto asked = must(protocol::enroll_request_from_json(must(parse_json(request.body))));
        const auto leaf =
            must(world_.authority.issue(asked.request, {Role::kDevice, asked.name}, now(), kDay));
        return http(200, protocol::to_json(
                             protocol::EnrollResponse{asked.name, leaf.pem(),
                                                      world_.authority.certificate().pem(), 9443})
                             .dump());
      }));
  must(write_file_durably(folder_.path() / "code", as_bytes(code.text() + "\n")));
  const std::string server_text = server.url().text(),
                    code_argument = std::string("@").append((folder_.path() / "code").string());
  ASSERT_EQ(run({"enroll", "--server", server_text, "--code", code_argument, "--dir",
                 device_.string(), "--name", "meter-7"}),
            0)
      << errors();
  EXPECT_THAT(output(), HasSubstr("Enrolled as meter-7"));
  ASSERT_EQ(run({"status", "--dir", device_.string(), "--json"}), 0) << errors();
  const Json status = must(parse_json(output()));
  EXPECT_EQ(status["device"], "meter-7");
  EXPECT_EQ(status["server"], "https://localhost:9443");
  EXPECT_EQ(status["running"], false);
  EXPECT_EQ(status["pending"], nullptr);
}

TEST_F(ProgramTest, WrongUsageAndBadInputExitWith2) {
  (void)world_.identity(device_, 1);
  EXPECT_EQ(run({}), 2);
  EXPECT_EQ(run({"run", "--dir", device_.string()}), 2);
  EXPECT_EQ(run({"run", "--dir", device_.string(), "--data", "tape:reel"}), 2);
  EXPECT_EQ(
      run({"enroll", "--server", "http://localhost:1", "--code", "x", "--dir", device_.string()}),
      2);
}

TEST_F(ProgramTest, AFolderWithoutIdentityExitsWith1AndSaysWhatToDo) {
  EXPECT_EQ(run(run_arguments()), 1);
  EXPECT_THAT(errors(), HasSubstr("muster-edge enroll"));
}

TEST_F(ProgramTest, TLS29_AnImpostorExitsWith3) {
  const World impostor;
  const ScriptedServer server(impostor.server, impostor.authority.certificate(), nullptr,
                              [](ScriptedConnection&, int) {});
  (void)world_.identity(device_, server.port());
  EXPECT_EQ(run(run_arguments()), 3) << errors();
}

TEST_F(ProgramTest, TLS30_ARejectedCertificateExitsWith4) {
  const World others;
  const ScriptedServer server(world_.server, world_.authority.certificate(),
                              &others.authority.certificate(), [](ScriptedConnection&, int) {});
  (void)world_.identity(device_, server.port());
  EXPECT_EQ(run(run_arguments()), 4) << errors();
  EXPECT_THAT(errors(), HasSubstr("certificate rejected (48)"));
}

TEST_F(ProgramTest, E08_E13_ASecondOneExitsWith5AndSigtermStopsTheFirstWithinASecond) {
  Gate polled;
  const ScriptedServer server(world_.server, world_.authority.certificate(),
                              &world_.authority.certificate(),
                              [&](ScriptedConnection& connection, int) {
                                connection.read_head();
                                polled.open();
                                connection.wait_for_end();
                              });
  (void)world_.identity(device_, server.port());
  auto arguments = run_arguments();
  arguments.push_back("--json");
  const pid_t first = start(arguments);
  ASSERT_TRUE(polled.wait());
  EXPECT_EQ(run(run_arguments()), 5) << errors();
  ASSERT_EQ(run({"status", "--dir", device_.string(), "--json"}), 0);
  EXPECT_EQ(must(parse_json(output()))["running"], true);

  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(::kill(first, SIGTERM), 0);
  EXPECT_EQ(wait_for_exit(first), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

}  // namespace
}  // namespace muster
