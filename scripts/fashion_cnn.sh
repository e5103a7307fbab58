#!/usr/bin/env bash
# Trains the CNN of McMahan et al. 2017 (preset fedavg_cnn, 1,663,370 parameters) on Fashion-MNIST in one process and prints
# loss and accuracy of each epoch. Fails when the test accuracy at the end is under 0.90. Installs and builds what is missing.
#   scripts/fashion_cnn.sh [EPOCHS] [THREADS]    default 5 epochs on all cores; the threads change the time, not the result
# MUSTER_FASHION_OUT (default ./fashion-cnn.safetensors) is where the trained state goes.
set -euo pipefail
cd "$(dirname "$0")/.."
epochs="${1:-5}"
threads="${2:-$(nproc)}"
out="${MUSTER_FASHION_OUT:-fashion-cnn.safetensors}"
bar=0.90
case "$epochs" in -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
for number in "$epochs" "$threads"; do
  [[ "$number" =~ ^[1-9][0-9]{0,3}$ ]] || { echo "wanted a whole number from 1 to 9999, got $number" >&2; exit 2; }
done
source scripts/federation.sh

build_programs
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/job.json" <<JOB
{
  "name": "fashion-cnn",
  "model": {"preset": "fedavg_cnn"},
  "data": "idx:$data/train-images-idx3-ubyte.gz,$data/train-labels-idx1-ubyte.gz;holdout=0",
  "local": {"epochs": $epochs, "batch_size": 64,
            "optimizer": {"type": "sgd", "lr": 0.05, "momentum": 0.9},
            "schedule": {"type": "cosine"}},
  "evaluation": {"test_data": "idx:$data/t10k-images-idx3-ubyte.gz,$data/t10k-labels-idx1-ubyte.gz"},
  "seed": 1
}
JOB
"$muster" fit "$folder/job.json" --threads "$threads" --out "$out" | tee "$folder/table"

# The last row of the table: EPOCH LOSS ACCURACY TEST-ACCURACY TEST-LOSS TIME.
accuracy=$(awk '$1 ~ /^[0-9]+$/ && NF >= 6 {last = $4} END {print last}' "$folder/table")
if awk "BEGIN {exit !($accuracy >= $bar)}"; then
  echo "test accuracy $accuracy, at least $bar as wanted"
else
  echo "test accuracy $accuracy is under $bar" >&2
  exit 1
fi
