#!/usr/bin/env bash
# Muster in a minute: a TLS server and ten devices on this machine train Fashion-MNIST, first FedAvg on IID shards, then
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
[[ "$rounds" =~ ^[1-9][0-9]{0,3}$ ]] || { echo "--rounds wants a whole number from 1 to 9999, got $rounds" >&2; exit 2; }

run="${MUSTER_DEMO_DIR:-demo-run}"
port="${MUSTER_DEMO_PORT:-18443}"
source scripts/federation.sh

finish() {
  local status=$?
  stop_everything
  [ "$status" -eq 0 ] || echo "the demo failed (exit $status); logs are in $run/*.log" >&2
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

say "1. Packages and build"
build_programs

started=$(date +%s)
say "2. A server: authority, certificates and database in $run/server"
fresh_folder
"$muster" init "$run/server" --host localhost --port "$port" --enroll-port "$((port + 1))"
start_server
cat "$run/server.out"

say "3. Ten devices, each with a key of its own and a one-time code"
enroll_devices

say "4. FedAvg, shards IID: $rounds rounds of one local epoch on 6,000 images a device"
start_devices "split=iid;seed=1"
submit_and_watch fedavg-iid '{"method": "FedAvg"}' "$rounds"
stop_devices

say "5. FedProx (mu = 0.01), two classes a device: the same, on data that differ from device to device"
start_devices "split=shards;per_device=2;seed=1"
submit_and_watch fedprox-noniid '{"method": "FedProx", "mu": 0.01}' "$rounds"

say "6. What is kept: jobs, devices, the model"
"$muster" job list
"$muster" device list
"$muster" model export fedavg-iid-1 -o "$run/model.safetensors"
stop_devices
stop_server || { echo "the server did not stop cleanly" >&2; exit 1; }

say "7. The round history, read back from SQLite (the server is stopped)"
for name in fedavg-iid-1 fedprox-noniid-1; do
  echo "$name"
  print_history "$name"
done

say "Done in $(($(date +%s) - started)) s after the build"
cat <<EOF
  model      $run/model.safetensors   (opens in PyTorch, JAX, NumPy)
  database   $run/server/muster.db    (docs/storage.md says what is in each table)
  logs       $run/server.log, $run/device-*.log

Try next:
  build/release/server/muster serve $run/server       # the same server again; its history is all there
  MUSTER_DIR=$run/server build/release/server/muster round show fedavg-iid-1 $rounds
  docs/jobs.md                                         # every setting of a job
EOF
