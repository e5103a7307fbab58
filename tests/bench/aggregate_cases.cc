#include "tests/bench/aggregate_cases.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "core/aggregate/encoding/decode.h"
#include "core/aggregate/encoding/encode.h"
#include "core/base/file.h"
#include "core/tensor/kernels/kernels.h"

namespace muster::bench {
namespace {

template <typename T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "aggregate_bench: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  return *std::move(result);
}

void must(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "aggregate_bench: %s\n", status.error().message.c_str());
  std::exit(1);
}

// Values between -1 and 1, fast and the same everywhere.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : x_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  float next() {
    x_ ^= x_ << 13;
    x_ ^= x_ >> 7;
    x_ ^= x_ << 17;
    return static_cast<float>(static_cast<std::int32_t>(x_ >> 32)) * 0x1p-31F;
  }

 private:
  std::uint64_t x_;
};

std::unique_ptr<StateDict> global_state(std::int64_t elements) {
  auto layout = must(StateLayout::create({{"weight", {elements}}}));
  auto state = std::make_unique<StateDict>(layout);
  Generator random(0);
  for (float& value : state->values()) value = random.next();
  return state;
}

StateDict update_state(const StateDict& global, std::int64_t number) {
  StateDict state = global.clone();
  Generator random(static_cast<std::uint64_t>(number) + 1);
  for (float& value : state.values()) value += 0.05F * random.next();
  return state;
}

std::string name(std::int64_t number) {
  return fmt::format("device-{:05}", number);
}

}  // namespace

Updates::Updates(std::int64_t count, std::int64_t elements) : global_(global_state(elements)) {
  bytes_each_ = static_cast<std::uint64_t>(elements) * 4;
  for (std::int64_t i = 0; i < count; ++i) states_.push_back(update_state(*global_, i));
  for (std::int64_t i = 0; i < count; ++i) {
    const StateDict& state = states_[static_cast<std::size_t>(i)];
    contributions_.push_back({.contributor = name(i),
                              .values = view_of(state),
                              .examples = 500 + i % 7,
                              .steps = 10,
                              .initial_loss = {},
                              .staleness = 0,
                              .known_finite = true});
    bytes_.push_back(std::as_bytes(state.values()));
  }
}

Updates::Updates(std::int64_t count, std::int64_t elements, const UpdateEncoding& encoding,
                 const std::filesystem::path& folder, std::int64_t distinct)
    : global_(global_state(elements)), content_(encoding.content) {
  std::filesystem::create_directories(folder);
  for (std::int64_t i = 0; i < std::min(count, distinct); ++i) {
    const StateDict state = update_state(*global_, i);
    const EncodedUpdate encoded = must(encode_update(encoding, *global_, state, nullptr, 1));
    paths_.push_back(folder / (name(i) + ".safetensors"));
    must(write_file_durably(paths_.back(), encoded.body));
    bytes_each_ = encoded.body.size();
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& path = paths_[static_cast<std::size_t>(i) % paths_.size()];
    files_.push_back(must(MappedFile::open(path)));
    contributions_.push_back({.contributor = name(i),
                              .values = must(open_update(must(MappedFile::open(path)), encoding,
                                                         global_->layout_ptr(), folder)),
                              .examples = 500 + i % 7,
                              .steps = 10,
                              .initial_loss = {},
                              .staleness = 0,
                              .known_finite = true});
  }
  for (const MappedFile& file : files_) bytes_.push_back(file.bytes());
}

Updates::~Updates() {
  for (const auto& path : paths_) std::filesystem::remove(path);
}

void Updates::release() const {
  for (const MappedFile& file : files_) file.release(0, file.bytes().size());
}

Outcome Updates::aggregate(const AggregationSettings& settings, Workers* workers,
                           bool known_finite) const {
  AggregationBase base;
  base.global = global_.get();
  base.content = content_;
  base.population = count();
  base.local_lr = 0.1;
  const std::unique_ptr<Aggregator> aggregator = must(make_aggregator(settings, base));
  for (Contribution contribution : contributions_) {
    contribution.known_finite = known_finite;
    must(aggregator->accumulate(std::move(contribution)));
  }
  return must(aggregator->finish(workers));
}

std::uint64_t read_all(const std::vector<ByteView>& parts, Workers& workers) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(workers.count()) * 64);
  for (const ByteView part : parts) {
    const auto pieces = static_cast<std::int64_t>(part.size() / kPiece + 1);
    workers.for_each(pieces, 1, [&](std::int64_t begin, std::int64_t, int worker) {
      const std::size_t from = static_cast<std::size_t>(begin) * kPiece;
      const std::size_t to = std::min(part.size(), from + kPiece);
      std::uint64_t lanes[16] = {};
      for (std::size_t at = from; at + sizeof lanes <= to; at += sizeof lanes) {
        std::uint64_t words[16];
        std::memcpy(words, part.data() + at, sizeof words);
        for (int i = 0; i < 16; ++i) lanes[i] += words[i];
      }
      for (const std::uint64_t lane : lanes) sums[static_cast<std::size_t>(worker) * 64] += lane;
    });
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < sums.size(); i += 64) sum += sums[i];
  return sum;
}

void gram_matrix(const std::vector<ByteView>& rows, std::int64_t elements, Workers& workers,
                 std::vector<float>& gram) {
  const auto n = static_cast<std::int64_t>(rows.size());
  constexpr std::int64_t kPart = 1024;
  const auto& kernels = kernels::best();
  const auto size = static_cast<std::size_t>(n * n);
  const auto count = static_cast<std::size_t>(workers.count());
  std::vector<std::vector<float>> products(count, std::vector<float>(size));
  std::vector<std::vector<float>> parts(count,
                                        std::vector<float>(static_cast<std::size_t>(n * kPart)));
  std::vector<std::vector<float>> scratch(
      count, std::vector<float>(static_cast<std::size_t>(kernels::kGemmScratch)));
  workers.for_each(elements, kPart, [&](std::int64_t begin, std::int64_t end, int worker) {
    const auto at = static_cast<std::size_t>(worker);
    const std::int64_t k = end - begin;
    for (std::int64_t i = 0; i < n; ++i) {
      std::memcpy(parts[at].data() + i * k, rows[static_cast<std::size_t>(i)].data() + begin * 4,
                  static_cast<std::size_t>(k) * 4);
    }
    kernels::Gemm gemm;
    gemm.m = gemm.n = n;
    gemm.k = k;
    gemm.a = gemm.b = parts[at].data();
    gemm.a_row = k;
    gemm.b_step = 1;
    gemm.b_column = k;
    gemm.c = products[at].data();
    gemm.c_row = n;
    gemm.accumulate = true;
    kernels.gemm(gemm, scratch[at].data());
  });
  gram.assign(size, 0);
  for (const auto& product : products) {
    for (std::size_t i = 0; i < size; ++i) gram[i] += product[i];
  }
}

void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

std::uint64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  return 0;
}

}  // namespace muster::bench
