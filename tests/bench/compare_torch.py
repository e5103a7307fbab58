#!/usr/bin/python3
"""Sets Muster's training beside PyTorch's, on this machine and in one run.

For each model and batch size: first both begin from the same state, take one batch and one step of SGD, and must agree
(loss and new weights). Then train_bench and PyTorch are timed alternately and the medians are compared. Both train in
float32 on the stated number of threads. Muster's time includes loading each batch out of a shuffled data set; PyTorch's
does not: its batch lies ready as a tensor.

  tests/bench/compare_torch.py                      all models, batches 10, 32, 64, 256, one thread
  tests/bench/compare_torch.py --quick              shorter timings, one of each
  tests/bench/compare_torch.py --models 2nn,char_lstm --batches 10 --json

Needs python3-torch with OpenBLAS (Debian 12: apt-get install python3-torch libopenblas0-pthread) and
build/release/tests/train_bench. The child processes get OPENBLAS_NUM_THREADS and no other OPENBLAS variable, so that
the BLAS picks its best kernel.
Exit code: 0 all bars are held, 1 one was missed or the two disagree, 2 wrong use.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import struct
import subprocess
import sys
import tempfile

MODELS = ["logistic", "2nn", "fedavg_cnn", "resnet8_gn", "char_lstm"]
BATCHES = [10, 32, 64, 256]
# Muster's samples a second by PyTorch's, at least.
BARS = {("logistic", 10): 3.0, ("2nn", 10): 2.0}
# fedavg_cnn at batch 64 on two threads by one, at least.
SCALING_BAR = 1.7
ROOT = pathlib.Path(__file__).resolve().parents[2]
# Debian's packages are in its own Python, which need not be the first one in PATH.
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable


def read_safetensors(path):
    """Name -> float32 array."""
    import numpy

    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    body = memoryview(data)[8 + length :]
    return {
        name: numpy.frombuffer(body[slice(*each["data_offsets"])], "<f4").reshape(each["shape"]).copy()
        for name, each in header.items()
        if name != "__metadata__"
    }


# --- PyTorch's side: a process of its own, with its own environment ---


def torch_model(name):
    """The preset of core/graph/presets.h; parameters have the same names."""
    import torch
    from torch import nn
    import torch.nn.functional as f

    class Logistic(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(784, 10)

        def forward(self, x):
            return self.fc1(x.flatten(1))

    class TwoNn(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2, self.fc3 = nn.Linear(784, 200), nn.Linear(200, 200), nn.Linear(200, 10)

        def forward(self, x):
            return self.fc3(f.relu(self.fc2(f.relu(self.fc1(x.flatten(1))))))

    class FedavgCnn(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 32, 5, padding=2), nn.Conv2d(32, 64, 5, padding=2)
            self.fc1, self.fc2 = nn.Linear(3136, 512), nn.Linear(512, 10)

        def forward(self, x):
            x = f.max_pool2d(f.relu(self.conv1(x.unsqueeze(1))), 2)
            x = f.max_pool2d(f.relu(self.conv2(x)), 2)
            return self.fc2(f.relu(self.fc1(x.flatten(1))))

    class Block(nn.Module):
        def __init__(self, fan_in, filters, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(fan_in, filters, 3, stride, 1, bias=False)
            self.bn1 = nn.GroupNorm(8, filters)
            self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
            self.bn2 = nn.GroupNorm(8, filters)
            self.downsample = None
            if stride != 1:
                self.downsample = nn.Sequential(
                    nn.Conv2d(fan_in, filters, 1, stride, bias=False), nn.GroupNorm(8, filters)
                )

        def forward(self, x):
            y = self.bn2(self.conv2(f.relu(self.bn1(self.conv1(x)))))
            return f.relu(y + (x if self.downsample is None else self.downsample(x)))

    class Resnet8Gn(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.GroupNorm(8, 16)
            self.layer1, self.layer2, self.layer3 = Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2)
            self.fc = nn.Linear(64, 10)

        def forward(self, x):
            x = self.layer3(self.layer2(self.layer1(f.relu(self.bn1(self.conv1(x))))))
            return self.fc(x.mean((2, 3)))

    class CharLstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(98, 8)
            self.lstm = nn.LSTM(8, 256, num_layers=2, batch_first=True)
            self.fc = nn.Linear(256, 98)

        def forward(self, x):
            return self.fc(self.lstm(self.embedding(x))[0]).flatten(0, 1)

    return {"logistic": Logistic, "2nn": TwoNn, "fedavg_cnn": FedavgCnn, "resnet8_gn": Resnet8Gn, "char_lstm": CharLstm}[
        name
    ]()


def torch_child(name, threads, folder):
    """Checks one step against Muster's, then answers each line (seconds) with samples a second."""
    import time
    import torch

    torch.set_num_threads(threads)
    told = json.loads((pathlib.Path(folder) / "told.json").read_text())
    states = {
        part: {key: torch.from_numpy(value) for key, value in read_safetensors(f"{folder}/{part}.safetensors").items()}
        for part in ("start", "stepped", "batch")
    }
    model = torch_model(name)
    model.load_state_dict(states["start"])
    x = states["batch"]["x"].long() if name == "char_lstm" else states["batch"]["x"]
    y = states["batch"]["y"].long().flatten()
    optimizer = torch.optim.SGD(model.parameters(), lr=told["lr"])

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    loss = step().item()
    with torch.no_grad():
        weights = dict(model.state_dict())
        moved = sum(((weights[key] - value) ** 2).sum().item() for key, value in states["start"].items()) ** 0.5
        apart = sum(((weights[key] - value) ** 2).sum().item() for key, value in states["stepped"].items()) ** 0.5
    maps = pathlib.Path("/proc/self/maps").read_text().split()
    blas = sorted({pathlib.Path(each).name for each in maps if "/libopenblas" in each or "/openblas" in each})
    told = {"loss": loss, "step_error": apart / moved, "torch": torch.__version__, "openblas": blas}
    print(json.dumps(told), flush=True)

    for line in sys.stdin:
        seconds = float(line)
        step()
        steps, began = 0, time.perf_counter()
        while True:
            step()
            steps += 1
            spent = time.perf_counter() - began
            if spent >= seconds:
                break
        print(steps * len(x) / spent, flush=True)


# --- the comparison ---


def environment(threads):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS")}
    return {**kept, "OPENBLAS_NUM_THREADS": str(threads)}


class Torch:
    def __init__(self, name, threads, folder, pin):
        self.child = subprocess.Popen(
            [*pin, PYTHON, __file__, "--child", name, "--threads", str(threads), "--folder", folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(threads),
        )
        first = self.child.stdout.readline()
        if not first:
            sys.exit(f"compare_torch: PyTorch's side of {name} did not start (is python3-torch installed?)")
        self.first_step = json.loads(first)
        if not self.first_step["openblas"]:
            sys.exit("compare_torch: PyTorch has no OpenBLAS here and would be several times too slow for a comparison: "
                     "apt-get install libopenblas0-pthread")

    def measure(self, seconds):
        self.child.stdin.write(f"{seconds}\n")
        self.child.stdin.flush()
        return float(self.child.stdout.readline())

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def muster_one_step(bench, name, batch, folder):
    told = subprocess.run([bench, f"--one_step={name}/{batch}/{folder}"], capture_output=True, text=True)
    if told.returncode != 0:
        sys.exit(f"compare_torch: {name} at {batch}: {told.stderr.strip()}")
    (pathlib.Path(folder) / "told.json").write_text(told.stdout)
    return json.loads(told.stdout)


def muster_measure(bench, name, batch, threads, seconds, pin):
    told = subprocess.run(
        [*pin, bench, f"--benchmark_filter=^{name}/{batch}/{threads}/", f"--benchmark_min_time={seconds}",
         "--benchmark_format=json"],
        capture_output=True, text=True,
    )
    if told.returncode != 0 or not told.stdout:
        sys.exit(f"compare_torch: {name} at {batch}: {told.stderr.strip()}")
    (row,) = json.loads(told.stdout)["benchmarks"]
    if row.get("error_occurred"):
        sys.exit(f"compare_torch: {name} at {batch}: {row['error_message']}")
    return row["items_per_second"]


def compare(arguments, name, batch, pin):
    with tempfile.TemporaryDirectory() as folder:
        ours = muster_one_step(arguments.bench, name, batch, folder)
        other = Torch(name, 1, folder, pin)
        agree = (
            abs(ours["loss"] - other.first_step["loss"]) <= 1e-4 * abs(other.first_step["loss"])
            and other.first_step["step_error"] <= 1e-3
        )
        torch_rates, muster_rates = [], []
        for _ in range(arguments.rounds):
            torch_rates.append(other.measure(arguments.seconds))
            muster_rates.append(muster_measure(arguments.bench, name, batch, 1, arguments.seconds, pin))
        other.close()
    rates = statistics.median(torch_rates), statistics.median(muster_rates)
    ratio, bar = rates[1] / rates[0], BARS.get((name, batch), 1.0)
    return {
        "model": name, "batch": batch, "torch": rates[0], "muster": rates[1], "ratio": ratio, "bar": bar,
        "torch_rates": torch_rates, "muster_rates": muster_rates, "loss": ours["loss"],
        "torch_loss": other.first_step["loss"], "step_error": other.first_step["step_error"], "agree": agree,
        "pass": agree and ratio >= bar, "torch_version": other.first_step["torch"],
    }


def compare_threads(arguments):
    """fedavg_cnn at batch 64: two threads by one, each in turn."""
    one, two = [], []
    for _ in range(arguments.rounds):
        one.append(muster_measure(arguments.bench, "fedavg_cnn", 64, 1, arguments.seconds, []))
        two.append(muster_measure(arguments.bench, "fedavg_cnn", 64, 2, arguments.seconds, []))
    rates = statistics.median(one), statistics.median(two)
    ratio = rates[1] / rates[0]
    return {"one": rates[0], "two": rates[1], "ratio": ratio, "bar": SCALING_BAR, "pass": ratio >= SCALING_BAR}


def machine():
    model = platform.processor()
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {"cpu": model, "cores": os.cpu_count(), "load": os.getloadavg()[0]}


def show(row, header):
    if header:
        print(f"{'model':<11} {'batch':>5} {'PyTorch':>12} {'Muster':>12} {'ratio':>6} {'bar':>4}  verdict")
        print(f"{'':<11} {'':>5} {'samples/s':>12} {'samples/s':>12}")
    verdict = "pass" if row["pass"] else "FAIL"
    if not row["agree"]:
        verdict += f" (they differ: loss {row['loss']:.6g} and {row['torch_loss']:.6g}, step {row['step_error']:.2g})"
    print(f"{row['model']:<11} {row['batch']:>5} {row['torch']:>12,.0f} {row['muster']:>12,.0f} "
          f"{row['ratio']:>6.2f} {row['bar']:>4.1f}  {verdict}", flush=True)


def names(text, known, convert):
    found = [convert(each) for each in text.split(",")]
    for each in found:
        if each not in known:
            raise argparse.ArgumentTypeError(f"{each} is unknown; known: {', '.join(map(str, known))}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="0.3 s a timing, one of each")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--models", type=lambda text: names(text, MODELS, str), default=MODELS)
    parser.add_argument("--batches", type=lambda text: names(text, BATCHES, int), default=BATCHES)
    parser.add_argument("--rounds", type=int, help="timings of each side, default 3")
    parser.add_argument("--seconds", type=float, help="of one timing, default 1")
    parser.add_argument("--cpu", type=int, help="run both on this core (taskset)")
    parser.add_argument("--bench", default=str(ROOT / "build/release/tests/train_bench"))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        torch_child(arguments.child, arguments.threads, arguments.folder)
        return 0
    if not os.access(arguments.bench, os.X_OK):
        print(f"compare_torch: {arguments.bench} is not there; build the target train_bench", file=sys.stderr)
        return 2
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    arguments.seconds = arguments.seconds or (0.3 if arguments.quick else 1.0)
    pin = ["taskset", "-c", str(arguments.cpu)] if arguments.cpu is not None else []

    result = {"machine": machine(), "rows": []}
    if not arguments.json:
        print("{cpu}, {cores} cores, load {load:.1f}".format(**result["machine"]))
    for name in arguments.models:
        for batch in arguments.batches:
            row = compare(arguments, name, batch, pin)
            result["rows"].append(row)
            if not arguments.json:
                show(row, header=len(result["rows"]) == 1)
    if "fedavg_cnn" in arguments.models and 64 in arguments.batches and (os.cpu_count() or 1) >= 2:
        result["threads"] = compare_threads(arguments)
        if not arguments.json:
            print("fedavg_cnn, batch 64, two threads: {two:,.0f} samples/s, {ratio:.2f} times one thread "
                  "(bar {bar}): {verdict}".format(verdict="pass" if result["threads"]["pass"] else "FAIL",
                                                  **result["threads"]))
    passed = all(row["pass"] for row in result["rows"]) and result.get("threads", {"pass": True})["pass"]
    result["pass"] = passed
    result["machine"]["load_after"] = os.getloadavg()[0]
    if arguments.json:
        print(json.dumps(result, indent=1))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
