#!/usr/bin/python3
"""Sets Muster's aggregation beside NumPy's, on this machine and in one run.

The same updates (so many float32 arrays in memory) are averaged, and so on, by aggregate_bench and by the shortest good
NumPy for it; the two are timed in turn and medians are compared.

  mean           NumPy: total += update, in place, float32, equal weights: the fastest there is. Muster's is weighted,
                 exact, and finds NaN.
  median         numpy.median over the stacked array
  trimmed mean   numpy.partition, then the mean of the middle rows
  krum           NumPy by differences (no cancellation), and by a Gram matrix (cancels; for comparison, without a bar)

  tests/bench/compare_numpy.py                       10 and 100 updates of 2 million elements, one thread and two
  tests/bench/compare_numpy.py --updates 10 --json

Needs python3-numpy with OpenBLAS (Debian 12: apt-get install python3-numpy libopenblas0-pthread) and
build/release/tests/aggregate_bench.
Exit code: 0 all bars are held, 1 one was missed, 2 wrong use.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
RULES = {"mean": "mean of memory", "median": "median", "trimmed mean": "trimmed mean", "krum": "krum"}
# NumPy's time by Muster's, at least; by rule and Muster's threads.
BARS = {("mean", 1): 2.0, ("mean", 2): 3.5}
OTHER_BAR = 3.0


# --- NumPy's side: a process of its own, so that its BLAS has the stated threads ---


def numpy_times(updates, elements, repetitions):
    import numpy

    random = numpy.random.default_rng(1)
    base = random.standard_normal(elements, dtype=numpy.float32)
    stacked = numpy.stack([base + 0.05 * random.standard_normal(elements, dtype=numpy.float32) for _ in range(updates)])
    f = (updates - 3) // 4
    k = int(0.2 * updates + 1e-9)

    def mean():
        total = numpy.zeros(elements, numpy.float32)
        for row in stacked:
            total += row
        total /= updates
        return total

    def trimmed():
        part = numpy.partition(stacked, [k, updates - k - 1], axis=0)
        return part[k : updates - k].mean(axis=0)

    def winner(distances):
        numpy.fill_diagonal(distances, numpy.inf)
        scores = numpy.sort(distances, axis=1)[:, : updates - f - 2].sum(axis=1)
        return stacked[int(scores.argmin())].copy()

    def krum():
        distances = numpy.zeros((updates, updates))
        for i in range(updates):
            for j in range(i):
                difference = stacked[i] - stacked[j]
                distances[i, j] = distances[j, i] = numpy.dot(difference, difference)
        return winner(distances)

    def krum_gram():
        gram = (stacked @ stacked.T).astype(numpy.float64)
        squares = numpy.diag(gram)
        return winner(squares[:, None] + squares[None, :] - 2 * gram)

    times = {}
    for name, call in {
        "mean": mean,
        "median": lambda: numpy.median(stacked, axis=0),
        "trimmed mean": trimmed,
        "krum": krum,
        "krum by Gram matrix": krum_gram,
    }.items():
        seconds = []
        for turn in range(repetitions + 1):
            begin = time.perf_counter()
            call()
            if turn > 0 or repetitions == 0:
                seconds.append(time.perf_counter() - begin)
        times[name] = statistics.median(seconds)
    return {"times": times, "numpy": numpy.__version__}


# --- the comparison ---


def run_numpy(updates, elements, threads, repetitions):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS")}
    environment["OPENBLAS_NUM_THREADS"] = str(threads)
    command = [PYTHON, __file__, "--numpy", str(updates), str(elements), str(repetitions)]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def run_muster(bench, rule, updates, elements, threads, repetitions):
    command = [bench, "--json", "--only", rule, "--updates", str(updates), "--elements", str(elements)]
    command += ["--threads", str(threads), "--repetitions", str(repetitions)]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return next(row for row in rows if row["name"] == rule)["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", default="10,100", help="numbers of updates")
    parser.add_argument("--elements", type=int, default=2_000_000, help="parameters of the model")
    parser.add_argument("--threads", default="1,2", help="numbers of threads")
    parser.add_argument("--repetitions", type=int, default=3, help="timings of each, in turn")
    parser.add_argument("--bench", default=str(ROOT / "build/release/tests/aggregate_bench"))
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.add_argument("--numpy", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.numpy:
        print(json.dumps(numpy_times(*(int(value) for value in options.numpy))))
        return 0
    if not os.access(options.bench, os.X_OK):
        print(f"{options.bench} is missing: cmake --build build/release --target aggregate_bench", file=sys.stderr)
        return 2

    results, held = [], True
    for updates in (int(value) for value in options.updates.split(",")):
        for threads in (int(value) for value in options.threads.split(",")):
            theirs, ours = {}, {}
            for _ in range(options.repetitions):
                once = run_numpy(updates, options.elements, threads, 1)
                for name, seconds in once["times"].items():
                    theirs.setdefault(name, []).append(seconds)
                for rule, row in RULES.items():
                    seconds = run_muster(options.bench, row, updates, options.elements, threads, 1)
                    ours.setdefault(rule, []).append(seconds)
                print(f"\r{updates} updates, {threads} threads: turn {len(ours['mean'])} of {options.repetitions}",
                      end="", file=sys.stderr)
            print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
            for name, seconds in theirs.items():
                rule = name.removesuffix(" by Gram matrix")
                ratio = statistics.median(seconds) / statistics.median(ours[rule])
                bar = None if rule != name else BARS.get((rule, threads), OTHER_BAR)
                held = held and (bar is None or ratio >= bar)
                results.append({"rule": name, "updates": updates, "threads": threads, "ratio": ratio, "bar": bar,
                                "numpy_seconds": statistics.median(seconds),
                                "muster_seconds": statistics.median(ours[rule])})
    if options.json:
        print(json.dumps({"machine": platform.processor() or platform.machine(), "numpy": once["numpy"],
                          "elements": options.elements, "results": results, "held": held}, indent=2))
        return 0 if held else 1
    print(f"NumPy {once['numpy']}, {options.elements} elements an update; seconds are medians of {options.repetitions}\n")
    print(f"{'':<22} {'updates':>7} {'threads':>7} {'NumPy':>9} {'Muster':>9} {'ratio':>7}  bar")
    for row in results:
        bar = "" if row["bar"] is None else f"{row['bar']:g} {'held' if row['ratio'] >= row['bar'] else 'MISSED'}"
        print(f"{row['rule']:<22} {row['updates']:>7} {row['threads']:>7} {row['numpy_seconds']:>9.4f} "
              f"{row['muster_seconds']:>9.4f} {row['ratio']:>7.2f}  {bar}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
