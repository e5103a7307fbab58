#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/aligned_floats.h"
#include "core/base/json.h"
#include "core/strategy/collective/ring.h"

// How fast the strategies' parts are, beside what this machine can do, in one run.
//
//   strategy_bench                                 all rows, 100 MB a worker
//   strategy_bench --only "ring" --elements 1000000
//
// Every row is timed `--repetitions` times in turn with all others; the median counts.
//
// An all-reduce in memory has to read every vector once and to write every vector once. Copying
// every vector, one thread each, moves as much: that is the limit the rows are shares of.
namespace muster::bench {
namespace {

using Seconds = std::chrono::duration<double>;

struct Options {
  std::int64_t elements = 25'000'000;
  std::vector<int> workers = {2};
  int repetitions = 9;
  std::string only;
#ifdef MUSTER_MPI_ALLREDUCE
  std::string mpi = "mpirun --allow-run-as-root -np {} " MUSTER_MPI_ALLREDUCE;
#else
  std::string mpi;
#endif
  bool json = false;
};

struct Row {
  std::string name;
  int workers = 0;
  double bytes = 0;                            // that must be read and written
  std::function<std::optional<double>()> run;  // seconds; nothing: it cannot be had here
  std::vector<double> seconds = {};

  double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

// Vectors that are there twice, every page touched.
struct Vectors {
  Vectors(int workers, std::int64_t elements) {
    const auto size = static_cast<std::size_t>(elements);
    for (int worker = 0; worker < workers; ++worker) {
      for (auto* list : {&values, &copies}) {
        memory.push_back(make_aligned_floats(elements));
        list->emplace_back(memory.back().get(), size);
        // So small that sums of sums stay finite.
        std::fill(list->back().begin(), list->back().end(), 1e-30F);
      }
    }
  }
  std::vector<AlignedFloats> memory;
  std::vector<std::span<float>> values;
  std::vector<std::span<float>> copies;
};

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return Seconds(std::chrono::steady_clock::now() - begin).count();
}

void copy_all(const Vectors& vectors) {
  std::vector<std::jthread> threads;
  for (std::size_t worker = 0; worker < vectors.values.size(); ++worker) {
    threads.emplace_back([&vectors, worker] {
      const std::span<float> from = vectors.values[worker];
      std::memcpy(vectors.copies[worker].data(), from.data(), from.size_bytes());
    });
  }
}

// What mpi_allreduce prints; nothing when it does not run.
std::optional<std::pair<double, double>> run_mpi(const std::string& command, int workers,
                                                 std::int64_t elements) {
  const std::string line =
      fmt::format("{} {} 3 2>&1", fmt::format(fmt::runtime(command), workers), elements);
  FILE* output = popen(line.c_str(), "r");
  if (output == nullptr) return std::nullopt;
  std::pair<double, double> seconds;
  const int found = std::fscanf(output, "%lf %lf", &seconds.first, &seconds.second);
  if (pclose(output) != 0 || found != 2) return std::nullopt;
  return seconds;
}

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {}

  void run() {
    for (const int workers : options_.workers) {
      auto vectors = std::make_shared<Vectors>(workers, options_.elements);
      const std::size_t first = rows_.size();
      add("copy of every vector", workers,
          [vectors] { return seconds_of([&] { copy_all(*vectors); }); });
      add("ring all-reduce", workers,
          [vectors] { return seconds_of([&] { (void)ring_all_reduce(vectors->values); }); });
      add_mpi(workers);
      vectors.reset();
      time_from(first);
    }
    print();
  }

 private:
  static constexpr const char* kLimit = "copy of every vector";
  static constexpr const char* kMpi = "MPI_Allreduce in place";

  void add(const std::string& name, int workers, std::function<std::optional<double>()> work) {
    if (name != kLimit && !name.starts_with(options_.only)) return;
    rows_.push_back({.name = name,
                     .workers = workers,
                     .bytes = 8.0 * workers * static_cast<double>(options_.elements),
                     .run = std::move(work)});
  }

  void add_mpi(int workers) {
    if (options_.mpi.empty()) return;
    auto copied = std::make_shared<std::optional<double>>();
    add(kMpi, workers, [this, workers, copied]() -> std::optional<double> {
      const auto both = run_mpi(options_.mpi, workers, options_.elements);
      if (!both) return std::nullopt;
      *copied = both->second;
      return both->first;
    });
    add("MPI_Allreduce to another buffer", workers, [copied] { return *copied; });
  }

  void time_from(std::size_t first) {
    for (int repetition = 0; repetition <= options_.repetitions; ++repetition) {
      for (std::size_t i = first; i < rows_.size(); ++i) {
        const std::optional<double> seconds = rows_[i].run();
        if (repetition > 0 && seconds) rows_[i].seconds.push_back(*seconds);  // the first warms up
        std::fprintf(stderr, "\r%-40s %d workers, turn %d of %d   ", rows_[i].name.c_str(),
                     rows_[i].workers, repetition, options_.repetitions);
      }
    }
    std::fprintf(stderr, "\r%80s\r", "");
    for (std::size_t i = first; i < rows_.size(); ++i) rows_[i].run = nullptr;
    std::erase_if(rows_, [](const Row& row) { return row.seconds.empty(); });
  }

  // The seconds of a row as a multiple of this one's; 0 when there is no such row.
  double times(const std::string& name, const Row& row) const {
    const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Row& other) {
      return other.name == name && other.workers == row.workers;
    });
    return found == rows_.end() ? 0 : found->median() / row.median();
  }

  void print() const {
    Json all = Json::array();
    if (!options_.json) {
      fmt::print("{} elements a worker, {:.0f} MB as float32; median of {}\n\n", options_.elements,
                 static_cast<double>(options_.elements) * 4e-6, options_.repetitions);
      fmt::print("{:<34} {:>7} {:>9} {:>8} {:>9} {:>8}\n", "", "workers", "seconds", "GB/s",
                 "of copy", "x MPI");
    }
    for (const Row& row : rows_) {
      const double rate = row.bytes / row.median() * 1e-9;
      if (options_.json) {
        all.push_back({{"name", row.name},
                       {"workers", row.workers},
                       {"elements", options_.elements},
                       {"seconds", row.median()},
                       {"gigabytes_per_second", rate},
                       {"share_of_copy", times(kLimit, row)},
                       {"times_as_fast_as_mpi", times(kMpi, row)}});
        continue;
      }
      fmt::print("{:<34} {:>7} {:>9.4f} {:>8.2f} {:>8.0f}% {:>8.2f}\n", row.name, row.workers,
                 row.median(), rate, times(kLimit, row) * 100, times(kMpi, row));
    }
    if (options_.json) fmt::print("{}\n", all.dump(2));
  }

  const Options& options_;
  std::vector<Row> rows_;
};

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::Options options;
  CLI::App app("How fast the parts of the strategies are, beside what this machine can do.");
  app.add_option("--elements", options.elements, "parameters of the model");
  app.add_option("--workers", options.workers, "numbers of workers")->delimiter(',');
  app.add_option("--repetitions", options.repetitions, "timings of each row");
  app.add_option("--only", options.only, "rows whose name begins with this");
  app.add_option("--mpi", options.mpi, "what runs mpi_allreduce, {} for the number of ranks");
  app.add_flag("--json", options.json, "one JSON array instead of a table");
  app.footer("Example: strategy_bench --only ring --elements 1000000 --workers 2,4");
  CLI11_PARSE(app, argc, argv);
  muster::bench::Bench(options).run();
  return 0;
}
