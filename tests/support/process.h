#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace muster::testing {

// A real child process whose output goes to files. Killed and reaped when it goes out of scope.
class Process {
 public:
  Process(std::vector<std::string> arguments, std::filesystem::path output,
          const std::map<std::string, std::string>& environment = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const;
  // The exit code, or 128 + the signal that ended it. Fails (throws) after `limit`.
  int wait(std::chrono::seconds limit = std::chrono::seconds(60));
  bool running();
  std::string output() const;  // standard output so far
  std::string errors() const;  // standard error so far
  // Waits until the standard output holds `text`.
  void wait_for_output(const std::string& text,
                       std::chrono::seconds limit = std::chrono::seconds(30));

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool reaped_ = false;
  std::filesystem::path output_;
};

struct Outcome {
  int exit_code = 0;
  std::string output;
  std::string errors;
};

// Runs a program to its end.
Outcome run(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
            const std::map<std::string, std::string>& environment = {},
            const std::string& input = {});

// A port that nobody listens on now.
int free_port();

}  // namespace muster::testing
