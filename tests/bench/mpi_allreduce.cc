#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

// MPI_Allreduce of float32 sums, to compare Muster's with (strategy_bench runs it).
//
//   mpirun --allow-run-as-root -np 2 mpi_allreduce ELEMENTS REPETITIONS
//
// Prints two medians in seconds: in place, and from one buffer to another. A repetition takes as
// long as its slowest rank. The first is not counted.
namespace {

double slowest(double seconds) {
  double result = 0;
  MPI_Allreduce(&seconds, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return result;
}

double median_seconds(const void* from, std::vector<float>& to, int repetitions) {
  std::vector<double> seconds;
  for (int repetition = 0; repetition <= repetitions; ++repetition) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Allreduce(from, to.data(), static_cast<int>(to.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    const double took = slowest(MPI_Wtime() - begin);
    if (repetition > 0) seconds.push_back(took);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const long elements = argc > 1 ? std::atol(argv[1]) : 25'000'000;
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 5;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::vector<float> from(static_cast<std::size_t>(elements), 1e-3F);
  std::vector<float> to(from);
  const double in_place = median_seconds(MPI_IN_PLACE, to, repetitions);
  const double copied = median_seconds(from.data(), to, repetitions);
  if (rank == 0) std::printf("%.9f %.9f\n", in_place, copied);
  MPI_Finalize();
  return 0;
}
