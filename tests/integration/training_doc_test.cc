#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "core/base/file.h"
#include "core/graph/losses/registry.h"
#include "core/graph/ops/registry.h"
#include "core/graph/presets.h"
#include "core/train/optimizer/optimizer.h"
#include "tests/support/federation.h"
#include "tests/support/process.h"

// docs/training.md: its commands run, its JSON is taken, and it has every op, loss, optimiser and
// preset.
namespace muster {
namespace {

using muster::testing::Outcome;
using muster::testing::run;
using muster::testing::take;
using muster::testing::TemporaryFolder;

namespace fs = std::filesystem;

std::string page() {
  return take(read_file(fs::path(MUSTER_SOURCE_DIR) / "docs/training.md", 1 << 20));
}

// The blocks between ```LANGUAGE and ```.
std::vector<std::string> blocks(const std::string& language) {
  std::istringstream lines(page());
  std::vector<std::string> found;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "```" + language) {
      inside = true;
      found.emplace_back();
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      found.back() += line + "\n";
    }
  }
  return found;
}

TEST(TrainingDoc, ItsCommandsRunAsTheyStand) {
  const TemporaryFolder folder;
  const fs::path script = folder.path() / "page.sh";
  {
    std::ofstream file(script);
    file << "cd " << folder.path() << "\nexport PATH='"
         << fs::path(MUSTER_BINARY).parent_path().string() << "':\"$PATH\"\n";
    for (const std::string& block : blocks("sh")) file << block;
  }
  const Outcome outcome =
      run({"/usr/bin/timeout", "-k", "5", "110", "/bin/bash", "-e", script}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.errors;
  // The second training began from the same state and so ends with the same.
  EXPECT_EQ(take(read_file(folder.path() / "points.safetensors", 1 << 20)),
            take(read_file(folder.path() / "again.safetensors", 1 << 20)));
}

TEST(TrainingDoc, ItsJsonIsTaken) {
  const TemporaryFolder folder;
  const std::vector<std::string> found = blocks("json");
  ASSERT_EQ(found.size(), 2U);
  for (const std::string& block : found) {
    const fs::path file = folder.path() / "block.json";
    take(write_file_durably(file, as_bytes(block)));
    const Outcome shown = run({MUSTER_BINARY, "model", "show", file}, folder.path());
    EXPECT_EQ(shown.exit_code, 0) << block << shown.errors;
  }
}

TEST(TrainingDoc, NamesWhateverThereIs) {
  std::set<std::string> names;
  for (const OpKind& kind : builtin_ops()) names.emplace(kind.name);
  for (const LossKind& kind : builtin_losses()) names.emplace(kind.name);
  for (const OptimizerKind& kind : optimizer_kinds()) names.emplace(kind.name);
  for (const Preset& preset : presets()) names.emplace(preset.name);
  const std::string text = page();
  for (const std::string& name : names)
    EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
}

}  // namespace
}  // namespace muster
