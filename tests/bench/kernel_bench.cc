#include <benchmark/benchmark.h>

#include <Eigen/Core>
#include <vector>

#include "core/base/random.h"
#include "core/tensor/kernels/kernels.h"

// The matrix products of training, by every instruction set of this processor and by Eigen, which
// this file is compiled for x86-64-v3 for. items_per_second counts multiply-adds.
namespace muster {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

std::vector<float> values(std::int64_t count) {
  Random random(1);
  std::vector<float> result(static_cast<std::size_t>(count));
  for (float& value : result) value = static_cast<float>(random.uniform() - 0.5);
  return result;
}

// dx[rows, in] = dy[rows, out] w[out, in]: arguments are rows, in and out.
void input_gradient(benchmark::State& state, const kernels::Table* table) {
  const std::int64_t rows = state.range(0);
  const std::int64_t in = state.range(1);
  const std::int64_t out = state.range(2);
  const auto dy = values(rows * out);
  const auto w = values(out * in);
  std::vector<float> dx(static_cast<std::size_t>(rows * in));
  std::vector<float> scratch(kernels::kGemmScratch);
  const Eigen::Map<const Matrix> dy_map(dy.data(), rows, out);
  const Eigen::Map<const Matrix> w_map(w.data(), out, in);
  Eigen::Map<Matrix> dx_map(dx.data(), rows, in);
  for (auto _ : state) {
    if (table == nullptr) {
      dx_map.noalias() = dy_map * w_map;
    } else {
      table->gemm({.m = rows,
                   .n = in,
                   .k = out,
                   .a = dy.data(),
                   .a_row = out,
                   .b = w.data(),
                   .b_step = in,
                   .c = dx.data(),
                   .c_row = in},
                  scratch.data());
    }
    benchmark::DoNotOptimize(dx.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * rows * in * out);
}

// y[rows, out] = x[rows, in] w[out, in]^T, for few rows.
void forward(benchmark::State& state, const kernels::Table* table) {
  const std::int64_t rows = state.range(0);
  const std::int64_t in = state.range(1);
  const std::int64_t out = state.range(2);
  const auto x = values(rows * in);
  const auto w = values(out * in);
  std::vector<float> y(static_cast<std::size_t>(rows * out));
  std::vector<float> scratch(kernels::kGemmScratch);
  const Eigen::Map<const Matrix> x_map(x.data(), rows, in);
  const Eigen::Map<const Matrix> w_map(w.data(), out, in);
  Eigen::Map<Matrix> y_map(y.data(), rows, out);
  for (auto _ : state) {
    if (table == nullptr) {
      y_map.noalias() = x_map * w_map.transpose();
    } else {
      table->dense_forward({.rows = rows,
                            .in = in,
                            .out = out,
                            .x = x.data(),
                            .w = w.data(),
                            .y = y.data(),
                            .y_row = out},
                           scratch.data());
    }
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * rows * in * out);
}

void add_all(const std::string& name, void (*run)(benchmark::State&, const kernels::Table*)) {
  const auto add = [&](const std::string& who, const kernels::Table* table) {
    auto* bench = benchmark::RegisterBenchmark((name + "/" + who).c_str(), run, table);
    bench->Args({10, 784, 200})->Args({10, 200, 200})->Args({10, 3136, 512})->Args({64, 784, 200});
  };
  for (const kernels::Table* const* table = kernels::available(); *table != nullptr; ++table) {
    add((*table)->name, *table);
  }
  add("eigen", nullptr);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::add_all("input_gradient", muster::input_gradient);
  muster::add_all("forward", muster::forward);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
