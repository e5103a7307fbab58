#include "tests/support/process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace muster::testing {
namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::filesystem::path with_suffix(std::filesystem::path path, const char* suffix) {
  path += suffix;
  return path;
}

}  // namespace

Process::Process(std::vector<std::string> arguments, std::filesystem::path output,
                 const std::map<std::string, std::string>& environment)
    : output_(std::move(output)) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string out = with_suffix(output_, ".out").string();
  const std::string err = with_suffix(output_, ".err").string();
  const std::string in = with_suffix(output_, ".in").string();
  const bool has_input = std::filesystem::exists(in);
  posix_spawn_file_actions_addopen(&actions, 0, has_input ? in.c_str() : "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);

  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    variables.emplace_back(*variable);
  for (const auto& [name, value] : environment)
    variables.push_back(fmt::format("{}={}", name, value));
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);

  const int failed = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start " + arguments[0]);
}

Process::~Process() {
  if (reaped_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, &status_, 0);
}

void Process::signal(int number) const {
  ::kill(pid_, number);
}

bool Process::running() {
  if (!reaped_ && ::waitpid(pid_, &status_, WNOHANG) == pid_) reaped_ = true;
  return !reaped_;
}

int Process::wait(std::chrono::seconds limit) {
  if (!reaped_) {
    const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
    pollfd ended{descriptor, POLLIN, 0};
    const int ready = ::poll(&ended, 1, static_cast<int>(limit.count() * 1'000));
    ::close(descriptor);
    if (ready != 1)
      throw std::runtime_error(fmt::format("process {} did not end; it said: {}", pid_, errors()));
    ::waitpid(pid_, &status_, 0);
    reaped_ = true;
  }
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

std::string Process::output() const {
  return content_of(with_suffix(output_, ".out"));
}
std::string Process::errors() const {
  return content_of(with_suffix(output_, ".err"));
}

void Process::wait_for_output(const std::string& text, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (output().find(text) == std::string::npos) {
    if (!running() || std::chrono::steady_clock::now() > end) {
      throw std::runtime_error(
          fmt::format("\"{}\" did not come; it said: {}{}", text, output(), errors()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // between two looks
  }
}

Outcome run(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
            const std::map<std::string, std::string>& environment, const std::string& input) {
  static int count = 0;
  const std::filesystem::path base = folder / fmt::format("run-{}", ++count);
  if (!input.empty()) std::ofstream(with_suffix(base, ".in")) << input;
  Process process(arguments, base, environment);
  const int code = process.wait(std::chrono::seconds(120));
  return {code, process.output(), process.errors()};
}

int free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), length);
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(descriptor);
  return ntohs(address.sin_port);
}

}  // namespace muster::testing
