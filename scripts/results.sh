#!/usr/bin/env bash
# Runs the federated jobs whose figures stand in docs/results.md and prints them as a table: FedAvg on IID shards, and FedAvg
# and FedProx with two classes a device. About a minute after the build.
#   scripts/results.sh [ROUNDS]      default 20; see scripts/demo.sh for MUSTER_DEMO_DIR and MUSTER_DEMO_PORT
set -euo pipefail
cd "$(dirname "$0")/.."
rounds="${1:-20}"
run="${MUSTER_DEMO_DIR:-demo-run}"
port="${MUSTER_DEMO_PORT:-18443}"
source scripts/federation.sh
trap stop_everything EXIT

build_programs
fresh_folder
"$muster" init "$run/server" --host localhost --port "$port" --enroll-port "$((port + 1))" >/dev/null
start_server
enroll_devices

start_devices "split=iid;seed=1"
submit_and_watch fedavg-iid '{"method": "FedAvg"}' "$rounds"
stop_devices
start_devices "split=shards;per_device=2;seed=1"
submit_and_watch fedavg-2class '{"method": "FedAvg"}' "$rounds"
for mu in 0.01 0.1 1.0; do
  submit_and_watch "fedprox-$mu-2class" "{\"method\": \"FedProx\", \"mu\": $mu}" "$rounds"
done
stop_devices
stop_server

sqlite3 -readonly -markdown "$run/server/muster.db" "
  SELECT j.job,
         max(CASE WHEN s.round = 1 THEN round(s.test_accuracy, 4) END) AS 'test acc, round 1',
         max(CASE WHEN s.round = $rounds / 2 THEN round(s.test_accuracy, 4) END) AS 'round $((rounds / 2))',
         max(CASE WHEN s.round = $rounds THEN round(s.test_accuracy, 4) END) AS 'round $rounds',
         round(min(s.test_accuracy - lag), 4) AS 'largest drop',
         round((j.finished_at_ms - j.created_at_ms) / 1000.0, 1) AS 'seconds'
    FROM jobs j
    JOIN (SELECT *, lag(test_accuracy, 1, 0) OVER (PARTITION BY job ORDER BY round) AS lag FROM round_summary WHERE phase = 'committed') s
      ON s.job = j.job
   GROUP BY j.job ORDER BY j.created_at_ms"
