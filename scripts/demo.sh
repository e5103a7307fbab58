#!/usr/bin/env bash
# Muster in four minutes: a TLS server and ten devices on this machine train Fashion-MNIST, first FedAvg on IID shards, then
# FedProx with two classes a device. Installs, builds, runs, shows, and ends by itself.
#   scripts/demo.sh [--rounds N]     N rounds a job (default 20)
# MUSTER_DEMO_DIR (default ./demo-run) is where the server and the devices live; it is made anew each time.
# MUSTER_DEMO_PORT (default 18443) and the port after it must be free.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=20
case "${1:-}" in
  --rounds) rounds="${2:?--rounds needs a number}" ;;
  -h|--help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
  "") ;;
  *) echo "unknown argument $1; see scripts/demo.sh --help" >&2; exit 2 ;;
esac
[[ "$rounds" =~ ^[1-9][0-9]{0,3}$ ]] || { echo "--rounds wants a whole number from 1, got $rounds" >&2; exit 2; }

run="${MUSTER_DEMO_DIR:-demo-run}"
port="${MUSTER_DEMO_PORT:-18443}"
enroll_port=$((port + 1))
data=/usr/share/datasets/fashion-mnist
devices=10
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

say "1. Packages and build"
scripts/install_packages.sh
# The tests need more packages; scripts/test.sh builds them.
cmake --preset release -DMUSTER_BUILD_TESTS=OFF >build.log 2>&1 || { cat build.log; exit 1; }
cmake --build --preset release --target muster muster-edge
mv build.log build/configure.log
muster=build/release/server/muster
edge=build/release/edge_client/muster-edge

pids=()
stop_all() {
  # Devices first, so that they take leave of a living server.
  [ ${#pids[@]} -eq 0 ] && return 0
  kill "${pids[@]}" 2>/dev/null || true
  wait "${pids[@]}" 2>/dev/null || true
  pids=()
}
server_pid=
finish() {
  local status=$?
  stop_all
  if [ -n "$server_pid" ]; then
    kill "$server_pid" 2>/dev/null || true
    wait "$server_pid" 2>/dev/null || true
  fi
  [ "$status" -eq 0 ] || echo "the demo failed (exit $status); logs are in $run/*.log" >&2
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

started=$(date +%s)
say "2. A server: authority, certificates, database in $run/server"
if [ -e "$run" ] && [ ! -e "$run/.muster-demo" ] && [ -n "$(ls -A "$run" 2>/dev/null)" ]; then
  echo "$run exists and is not from a demo; name another place with MUSTER_DEMO_DIR" >&2
  exit 2
fi
rm -rf "$run"
mkdir -p "$run"
touch "$run/.muster-demo"
"$muster" init "$run/server" --host localhost --port "$port" --enroll-port "$enroll_port"
"$muster" serve "$run/server" >"$run/server.out" 2>"$run/server.log" &
server_pid=$!
export MUSTER_DIR="$run/server"
for _ in $(seq 100); do
  kill -0 "$server_pid" 2>/dev/null || { cat "$run/server.log" >&2; exit 1; }
  grep -q serves "$run/server.out" && break
  sleep 0.1
done
cat "$run/server.out"

say "3. Ten devices, each with a key of its own and a one-time code"
mapfile -t codes < <("$muster" token create --uses "$devices" --ttl 1h 2>/dev/null)
for i in $(seq 0 $((devices - 1))); do
  name=$(printf 'device-%02d' "$i")
  # The code goes in by standard input, so that it is in no process list.
  "$edge" enroll --server "https://localhost:$enroll_port" --code - --dir "$run/$name" --name "$name" <<<"${codes[$i]}"
done

start_devices() {  # start_devices SPLIT
  for i in $(seq 0 $((devices - 1))); do
    name=$(printf 'device-%02d' "$i")
    "$edge" run --dir "$run/$name" \
      --data "idx:$data/train-images-idx3-ubyte.gz,$data/train-labels-idx1-ubyte.gz;shard=$i/$devices;$1" \
      >>"$run/$name.log" 2>&1 &
    pids+=($!)
  done
}

job() {  # job NAME AGGREGATION
  cat >"$run/$1.json" <<EOF
{
  "name": "$1",
  "model": {"preset": "2nn"},
  "strategy": {"type": "Federated", "num_clients": $devices, "rounds": $rounds, "aggregation": $2},
  "local": {"epochs": 1, "batch_size": 10, "optimizer": {"type": "sgd", "lr": 0.05}},
  "evaluation": {"test_data": "idx:$data/t10k-images-idx3-ubyte.gz,$data/t10k-labels-idx1-ubyte.gz"},
  "seed": 1
}
EOF
  "$muster" job submit "$run/$1.json" --watch
}

say "4. FedAvg, shards IID: $rounds rounds of one local epoch on 6,000 images a device"
start_devices "split=iid;seed=1"
job fedavg-iid '{"method": "FedAvg"}'
stop_all

say "5. FedProx (mu = 0.01), two classes a device: the same, on data that differ from device to device"
start_devices "split=shards;per_device=2;seed=1"
job fedprox-noniid '{"method": "FedProx", "mu": 0.01}'

say "6. What the database says"
"$muster" job list
for name in fedavg-iid-1 fedprox-noniid-1; do
  printf '\n%s\n' "$name"
  "$muster" round list "$name"
done
"$muster" model export fedavg-iid-1 -o "$run/model.safetensors"

stop_all
kill "$server_pid"
wait "$server_pid" || { echo "the server did not stop cleanly" >&2; exit 1; }
server_pid=

say "Done in $(($(date +%s) - started)) s after the build"
cat <<EOF
  model      $run/model.safetensors   (opens in PyTorch, JAX, NumPy)
  database   $run/server/muster.db    (docs/storage.md says what is in each table)
  logs       $run/server.log, $run/device-*.log

Try next:
  build/release/server/muster serve $run/server          # the same server again; its history is all there
  MUSTER_DIR=$run/server build/release/server/muster round show fedavg-iid-1 $rounds
  docs/jobs.md                                            # every setting of a job
EOF
