#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "tests/bench/aggregate_cases.h"

// How fast the aggregators take updates, beside how fast this machine reads them, in one run.
//
//   aggregate_bench                             all rows, 10 and 100 updates of 16 MB
//   aggregate_bench --only mean --threads 1     the rows whose name begins so
//   aggregate_bench --memory --elements 25000000 --updates 10,100,1000
//                                               peak memory, updates of 100 MB as mapped files
//
// Every row is timed `--repetitions` times in turn with all others; the median counts.
namespace muster::bench {
namespace {

using Seconds = std::chrono::duration<double>;

struct Options {
  std::vector<std::int64_t> updates = {10, 100};
  std::int64_t elements = 4'000'000;
  std::vector<int> threads = {1, 2};
  int repetitions = 5;
  std::string only;
  std::string folder = "/tmp/aggregate_bench";
  bool memory = false;
  bool json = false;
};

struct Row {
  std::string name;
  std::int64_t updates = 0;
  int threads = 1;
  double bytes = 0;     // of updates, as they lie in memory or on disk
  double elements = 0;  // of all updates
  std::function<void()> run;
  std::vector<double> seconds = {};

  double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {}

  void run() {
    for (const std::int64_t updates : options_.updates) {
      const std::size_t before = rows_.size();
      Updates in_memory(updates, options_.elements);
      add_memory_rows(in_memory);
      time_from(before);
      for (const auto format : {UpdateEncoding::Format::kFloat32, UpdateEncoding::Format::kFloat16,
                                UpdateEncoding::Format::kBFloat16, UpdateEncoding::Format::kInt8}) {
        UpdateEncoding encoding;
        encoding.format = format;
        const std::string name = describe(encoding);
        if (!wanted("mean of " + name) && !wanted("read " + name)) continue;
        const Updates files(updates, options_.elements, encoding, options_.folder, updates);
        const std::size_t first = rows_.size();
        add_file_rows(files, name);
        time_from(first);
      }
    }
    print();
  }

 private:
  bool wanted(const std::string& name) const { return name.starts_with(options_.only); }

  void add(const std::string& name, const Updates& updates, int threads,
           std::function<void(Workers&)> run) {
    if (!wanted(name) && !name.starts_with("read")) return;
    auto workers = std::make_shared<Workers>(threads);
    const double count = static_cast<double>(updates.count());
    rows_.push_back({.name = name,
                     .updates = updates.count(),
                     .threads = threads,
                     .bytes = count * static_cast<double>(updates.bytes_each()),
                     .elements = count * static_cast<double>(updates.elements()),
                     .run = [workers, run = std::move(run)] { run(*workers); }});
  }

  void add_rule(const std::string& name, const Updates& updates, int threads,
                const AggregationSettings& settings, bool known_finite = true) {
    add(name, updates, threads, [&updates, settings, known_finite](Workers& workers) {
      (void)updates.aggregate(settings, &workers, known_finite);
    });
  }

  void add_memory_rows(const Updates& updates) {
    const std::int64_t f = (updates.count() - 3) / 4;
    for (const int threads : options_.threads) {
      add("read memory", updates, threads,
          [&](Workers& workers) { sum_ += read_all(updates.bytes(), workers); });
      add_rule("mean of memory", updates, threads, FedAvg{});
      add_rule("mean of memory, values checked", updates, threads, FedAvg{}, false);
      add_rule("change mean of memory (FedAvgM)", updates, threads, FedAvgM{});
      add_rule("norm clipping", updates, threads, NormClipping{.max_norm = 1});
      add_rule("median", updates, threads, Median{});
      add_rule("trimmed mean", updates, threads, TrimmedMean{.beta = 0.2});
      add_rule("geometric median, 3 iterations", updates, threads,
               GeometricMedian{.max_iterations = 3, .tolerance = 0});
      add_rule("krum", updates, threads, Krum{.f = f});
      add_rule("bulyan", updates, threads, Bulyan{.f = f});
      add("gram matrix by GEMM", updates, threads, [&](Workers& workers) {
        gram_matrix(updates.bytes(), updates.elements(), workers, gram_);
      });
    }
  }

  void add_file_rows(const Updates& updates, const std::string& name) {
    for (const int threads : options_.threads) {
      add("read " + name + " files", updates, threads, [&](Workers& workers) {
        sum_ += read_all(updates.bytes(), workers);
        updates.release();
      });
      add_rule("mean of " + name + " files", updates, threads, FedAvg{});
    }
  }

  void time_from(std::size_t first) {
    for (int repetition = 0; repetition <= options_.repetitions; ++repetition) {
      for (std::size_t i = first; i < rows_.size(); ++i) {
        const auto begin = std::chrono::steady_clock::now();
        rows_[i].run();
        const Seconds time = std::chrono::steady_clock::now() - begin;
        if (repetition > 0) rows_[i].seconds.push_back(time.count());  // the first warms up
        if (!shows_progress_) continue;
        std::fprintf(stderr, "\r%-50s %3d updates %d threads, turn %d of %d   ",
                     rows_[i].name.c_str(), static_cast<int>(rows_[i].updates), rows_[i].threads,
                     repetition, options_.repetitions);
      }
    }
    if (shows_progress_) std::fprintf(stderr, "\r%90s\r", "");
    for (std::size_t i = first; i < rows_.size(); ++i) rows_[i].run = nullptr;
  }

  const Row* find(const std::string& name, const Row& like) const {
    const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) {
      return row.name == name && row.updates == like.updates && row.threads == like.threads;
    });
    return found == rows_.end() ? nullptr : &*found;
  }

  static std::string reading_of(const Row& row) {
    if (!row.name.ends_with("files")) return "read memory";
    return "read " + row.name.substr(row.name.find(" of ") + 4);
  }

  void print() const {
    Json all = Json::array();
    if (!options_.json) {
      fmt::print("{} elements an update, {:.0f} MB as float32; median of {}\n\n", options_.elements,
                 static_cast<double>(options_.elements) * 4e-6, options_.repetitions);
      fmt::print("{:<42} {:>7} {:>7} {:>9} {:>12} {:>8} {:>9} {:>8}\n", "", "updates", "threads",
                 "seconds", "ns/element", "GB/s", "of read", "x mean");
    }
    for (const Row& row : rows_) {
      const double seconds = row.median();
      const Row* reading = find(reading_of(row), row);
      const Row* mean = find("mean of memory", row);
      const double of_reading = reading == nullptr ? 0 : reading->median() / seconds;
      const double of_mean = mean == nullptr ? 0 : seconds / mean->median();
      if (options_.json) {
        all.push_back({{"name", row.name},
                       {"updates", row.updates},
                       {"threads", row.threads},
                       {"elements", options_.elements},
                       {"seconds", seconds},
                       {"gigabytes_per_second", row.bytes / seconds * 1e-9},
                       {"share_of_reading", of_reading},
                       {"times_the_mean", of_mean}});
        continue;
      }
      fmt::print("{:<42} {:>7} {:>7} {:>9.4f} {:>12.4f} {:>8.2f} {:>8.0f}% {:>8.2f}\n", row.name,
                 row.updates, row.threads, seconds, seconds / row.elements * 1e9,
                 row.bytes / seconds * 1e-9, of_reading * 100, of_mean);
    }
    if (options_.json) fmt::print("{}\n", all.dump(2));
    if (sum_ == 1) fmt::print("\n");  // what was read is used
  }

  const Options& options_;
  const bool shows_progress_ = ::isatty(STDERR_FILENO) == 1;
  std::vector<Row> rows_;
  std::uint64_t sum_ = 0;
  std::vector<float> gram_;
};

// Peak resident memory of aggregating mapped files, in models.
void measure_memory(const Options& options) {
  const double model = static_cast<double>(options.elements) * 4;
  fmt::print("{:<28} {:>7} {:>10} {:>8}\n", "", "updates", "peak MB", "models");
  for (const std::int64_t updates : options.updates) {
    const std::int64_t f = (updates - 3) / 4;
    const std::vector<std::pair<std::string, AggregationSettings>> rules = {
        {"mean", FedAvg{}},
        {"FedAdam", FedAdaptive{}},
        {"median", Median{}},
        {"trimmed mean", TrimmedMean{.beta = 0.2}},
        {"krum", Krum{.f = f}},
        {"bulyan", Bulyan{.f = f}},
        {"geometric median, 2 turns", GeometricMedian{.max_iterations = 2, .tolerance = 0}}};
    for (const auto& [name, settings] : rules) {
      if (!name.starts_with(options.only)) continue;
      const Updates files(updates, options.elements, UpdateEncoding{}, options.folder, 10);
      Workers workers(options.threads.back());
      reset_peak();
      (void)files.aggregate(settings, &workers);
      const auto peak = static_cast<double>(peak_bytes());
      fmt::print("{:<28} {:>7} {:>10.0f} {:>8.2f}\n", name, updates, peak * 1e-6, peak / model);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::Options options;
  CLI::App app("How fast updates are aggregated, beside how fast this machine reads them.");
  app.add_option("--updates", options.updates, "numbers of updates")->delimiter(',');
  app.add_option("--elements", options.elements, "parameters of the model");
  app.add_option("--threads", options.threads, "numbers of threads")->delimiter(',');
  app.add_option("--repetitions", options.repetitions, "timings of each row");
  app.add_option("--only", options.only, "rows whose name begins with this");
  app.add_option("--folder", options.folder, "for files; what is made there is removed");
  app.add_flag("--memory", options.memory, "peak memory instead of time");
  app.add_flag("--json", options.json, "one JSON array instead of a table");
  app.footer("Example: aggregate_bench --only mean --updates 100 --threads 1,2");
  CLI11_PARSE(app, argc, argv);
  if (options.memory) {
    muster::bench::measure_memory(options);
  } else {
    muster::bench::Bench(options).run();
  }
  return 0;
}
