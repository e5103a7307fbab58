#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "core/strategy/executors/data_parallel_run.h"
#include "core/tensor/kernels/kernels.h"
#include "core/train/trained_weights.h"

namespace muster {
namespace {

// A step whose batch is being worked on: its shares, who has them, and the gradients that are
// there.
struct OpenStep {
  struct Piece {
    BatchShare share;
    std::int64_t owner = 0;
    bool taken = false;
    ShareFigures figures = {};
    std::optional<StateDict> gradient = {};  // arrived
  };
  std::int64_t step = 0;
  std::vector<Piece> pieces;

  bool complete() const {
    return std::ranges::all_of(pieces,
                               [](const Piece& piece) { return piece.gradient.has_value(); });
  }
};

// The server: the weights with their optimiser, and the steps that are open. Every replica's lane
// asks it for work, fetches weights and pushes gradients; any of them may be the one whose push
// completes a step. Which weights a share is computed with depends on timing within the bound; in
// which order steps and shares are added does not.
class Server {
 public:
  Server(DataParallelRun& run, std::int64_t max_staleness)
      : run_(run),
        max_staleness_(max_staleness),
        weights_(run.graph(), *run.task().start, run.task().settings),
        version_(run.figures().steps()),
        next_(run.figures().steps()),
        end_(run.figures().total_steps()) {}

  struct Work {
    std::int64_t step = 0;
    std::size_t piece = 0;
    BatchShare share;
    StateDict buffer;  // for the gradient
  };
  // Waits until there is something for the worker; nothing: the run is over for it. Every wait
  // ends: whoever has work comes back within the context's operation time, with it or with an
  // error.
  std::optional<Work> next_for(std::int64_t worker) {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (failure_ || !is_alive(worker)) return std::nullopt;
      if (auto work = take_piece(worker)) return work;
      if (run_.figures().done()) end_ = std::min(end_, next_);
      if (next_ < end_ && version_ >= next_ - max_staleness_) {
        open_step();
        continue;
      }
      if (version_ == end_) return std::nullopt;
      changed_.wait(lock);
    }
  }

  // Copies the weights now, where they are newer than those that `version` counts.
  bool fetch(std::int64_t& version, std::optional<StateDict>& into) {
    const std::lock_guard lock(mutex_);
    if (into && version == version_) return false;
    if (!into) into.emplace(weights_.w().layout_ptr());
    std::ranges::copy(std::as_const(weights_).w().values(), into->values().begin());
    version = version_;
    return true;
  }

  void push(Work work, const ShareFigures& figures, std::int64_t version) {
    const std::lock_guard lock(mutex_);
    const std::int64_t staleness = work.step - version;
    most_stale_ = std::max(most_stale_, staleness);
    stale_sum_ += staleness;
    ++pushes_;
    for (OpenStep& open : open_) {
      if (open.step != work.step) continue;
      open.pieces[work.piece].figures = figures;
      open.pieces[work.piece].gradient = std::move(work.buffer);
    }
    while (!failure_ && !open_.empty() && open_.front().complete()) apply_front();
    changed_.notify_all();
  }

  // The worker's call failed: its work goes to others, or the run ends.
  void failed(std::int64_t worker, const Status& result) {
    const std::lock_guard lock(mutex_);
    // Another's failure may have shown that this worker is lost too.
    if (!is_alive(worker)) return;
    if (const auto settled = run_.settle(std::span(&result, 1)); !settled) {
      if (!failure_) failure_ = settled.error();
    } else {
      give_away_lost();
    }
    changed_.notify_all();
  }

  void tell() {
    const std::lock_guard lock(mutex_);
    run_.tell();
  }

  // After all lanes have ended.
  Result<StrategyResult> finish() {
    if (failure_) return run_.interrupted(*failure_, weights_.w().clone());
    Json report = run_.report();
    report["max_staleness_seen"] = most_stale_;
    report["mean_staleness"] =
        pushes_ == 0 ? 0.0 : static_cast<double>(stale_sum_) / static_cast<double>(pushes_);
    return run_.finish(weights_.w().clone(), std::move(report));
  }

 private:
  bool is_alive(std::int64_t worker) const {
    return std::ranges::binary_search(run_.alive(), worker);
  }

  std::optional<Work> take_piece(std::int64_t worker) {
    for (OpenStep& open : open_) {
      for (std::size_t i = 0; i < open.pieces.size(); ++i) {
        OpenStep::Piece& piece = open.pieces[i];
        if (piece.taken || piece.owner != worker) continue;
        piece.taken = true;
        return Work{.step = open.step, .piece = i, .share = piece.share, .buffer = a_buffer()};
      }
    }
    return std::nullopt;
  }

  StateDict a_buffer() {
    if (spare_.empty()) return StateDict(weights_.w().layout_ptr());
    StateDict buffer = std::move(spare_.back());
    spare_.pop_back();
    return buffer;
  }

  void open_step() {
    OpenStep open{.step = next_, .pieces = {}};
    std::vector<BatchShare> shares = run_.shares_of(next_);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      open.pieces.push_back({.share = std::move(shares[i]), .owner = run_.alive()[i]});
    }
    open_.push_back(std::move(open));
    ++next_;
    changed_.notify_all();
  }

  // What lost workers had and did not bring goes to those that are left, in turn.
  void give_away_lost() {
    std::size_t heir = 0;
    for (OpenStep& open : open_) {
      for (OpenStep::Piece& piece : open.pieces) {
        if (piece.gradient || is_alive(piece.owner)) continue;
        piece.owner = run_.alive()[heir++ % run_.alive().size()];
        piece.taken = false;
      }
    }
  }

  void apply_front() {
    OpenStep open = std::move(open_.front());
    open_.pop_front();
    std::vector<ShareFigures> figures;
    const std::span<float> sum = weights_.gradient().values();
    const auto size = static_cast<std::int64_t>(sum.size());
    for (OpenStep::Piece& piece : open.pieces) {
      const std::span<const float> gradient = std::as_const(*piece.gradient).values();
      if (figures.empty()) {
        std::ranges::copy(gradient, sum.begin());
      } else {
        kernels::best().add(size, gradient.data(), sum.data());
      }
      figures.push_back(piece.figures);
      spare_.push_back(*std::move(piece.gradient));
    }
    weights_.take_untrained_from_gradient();
    if (Status stepped = weights_.step(run_.at(open.step)); !stepped) {
      failure_ = stepped.error();
      return;
    }
    run_.complete_step(figures);
    ++version_;
  }

  DataParallelRun& run_;
  const std::int64_t max_staleness_;
  std::mutex mutex_;  // guards all below, and the run
  std::condition_variable changed_;
  TrainedWeights weights_;
  std::int64_t version_;  // steps that the weights have
  std::int64_t next_;     // step to open
  std::int64_t end_;
  std::deque<OpenStep> open_;
  std::vector<StateDict> spare_;
  std::optional<Error> failure_;
  std::int64_t most_stale_ = 0;
  std::int64_t stale_sum_ = 0;
  std::int64_t pushes_ = 0;
};

// One replica's part of the run: as long as there is work for it.
Status serve(DataParallelRun& run, Server& server, std::int64_t worker, bool tells) {
  std::int64_t version = -1;
  std::optional<StateDict> weights;
  while (std::optional<Server::Work> work = server.next_for(worker)) {
    Status done;
    if (server.fetch(version, weights)) done = run.context().set_state(worker, *weights);
    Result<ShareFigures> figures;
    if (done) {
      figures = run.context().get_gradients(worker, work->share, work->buffer);
      if (!figures) done = figures.error();
    }
    if (!done) {
      server.failed(worker, done);
      return done;
    }
    server.push(*std::move(work), *figures, version);
    if (tells) server.tell();
  }
  return {};
}

}  // namespace

Result<StrategyResult> fit_parameter_server(DataParallelRun& run, const ParameterServer& method) {
  MUSTER_TRY_STATUS(run.prepare());
  Server server(run, method.max_staleness);
  const std::vector<std::int64_t> workers = run.alive();
  (void)run.fan_out().run(workers, [&](std::size_t slot, std::int64_t worker) {
    return serve(run, server, worker, slot == 0);
  });
  return server.finish();
}

}  // namespace muster
