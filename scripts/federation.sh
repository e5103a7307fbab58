# Sourced by demo.sh and results.sh: a server and its devices as processes of this machine.
#   run, port            where they live and which port (and the next) they use; set before
#   muster, edge         the two programs
# `stop_everything` on exit leaves no process behind.

devices=10
data=/usr/share/datasets/fashion-mnist
muster=build/release/server/muster
edge=build/release/edge_client/muster-edge
device_pids=()
server_pid=

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

build_programs() {
  scripts/install_packages.sh
  mkdir -p build
  # The tests need more packages; scripts/test.sh builds them.
  cmake --preset release -DMUSTER_BUILD_TESTS=OFF >build/configure.log 2>&1 || { cat build/configure.log >&2; return 1; }
  cmake --build --preset release --target muster muster-edge
}

stop_devices() {
  [ ${#device_pids[@]} -eq 0 ] && return 0
  kill "${device_pids[@]}" 2>/dev/null || true
  wait "${device_pids[@]}" 2>/dev/null || true
  device_pids=()
}

stop_server() {
  [ -n "$server_pid" ] || return 0
  local pid=$server_pid
  server_pid=
  kill "$pid" 2>/dev/null || true
  wait "$pid"
}

stop_everything() {
  stop_devices
  stop_server || true
}

# Empties $run, but only when an earlier run of ours made it.
fresh_folder() {
  if [ -e "$run" ] && [ ! -e "$run/.muster-demo" ] && [ -n "$(ls -A "$run" 2>/dev/null)" ]; then
    echo "$run exists and is not from a demo; name another place with MUSTER_DEMO_DIR" >&2
    return 2
  fi
  rm -rf "$run"
  mkdir -p "$run"
  touch "$run/.muster-demo"
}

start_server() {
  "$muster" serve "$run/server" >"$run/server.out" 2>"$run/server.log" &
  server_pid=$!
  export MUSTER_DIR="$run/server"
  for _ in $(seq 100); do
    if ! kill -0 "$server_pid" 2>/dev/null; then
      cat "$run/server.log" >&2
      return 1
    fi
    grep -q serves "$run/server.out" && return 0
    sleep 0.1
  done
  echo "the server did not come up in 10 s; see $run/server.log" >&2
  return 1
}

enroll_devices() {
  local codes i name
  mapfile -t codes < <("$muster" token create --uses "$devices" --ttl 1h 2>/dev/null)
  [ "${#codes[@]}" -eq "$devices" ] || { echo "no enrolment codes; see $run/server.log" >&2; return 1; }
  for ((i = 0; i < devices; i++)); do
    name=$(printf 'device-%02d' "$i")
    # The code goes in by standard input, so that it is in no process list.
    "$edge" enroll --server "https://localhost:$((port + 1))" --code - --dir "$run/$name" --name "$name" <<<"${codes[$i]}" >>"$run/enroll.log"
    echo "  $name enrolled; its key stays in $run/$name"
  done
}

start_devices() {  # start_devices SPLIT: how the training images are shared out
  local i name
  for ((i = 0; i < devices; i++)); do
    name=$(printf 'device-%02d' "$i")
    "$edge" run --dir "$run/$name" \
      --data "idx:$data/train-images-idx3-ubyte.gz,$data/train-labels-idx1-ubyte.gz;shard=$i/$devices;$1" \
      >>"$run/$name.log" 2>&1 &
    device_pids+=($!)
  done
}

submit_and_watch() {  # submit_and_watch NAME AGGREGATION ROUNDS
  cat >"$run/$1.json" <<EOF
{
  "name": "$1",
  "model": {"preset": "2nn"},
  "strategy": {"type": "Federated", "num_clients": $devices, "rounds": $3, "aggregation": $2},
  "local": {"epochs": 1, "batch_size": 10, "optimizer": {"type": "sgd", "lr": 0.05}},
  "evaluation": {"test_data": "idx:$data/t10k-images-idx3-ubyte.gz,$data/t10k-labels-idx1-ubyte.gz"},
  "seed": 1
}
EOF
  "$muster" job submit "$run/$1.json" --watch
}

# A job's history straight out of the database file.
print_history() {  # print_history JOB
  sqlite3 -readonly -box "$run/server/muster.db" \
    "SELECT round, phase, invited, accepted, round(train_loss, 4) AS train_loss, round(test_accuracy, 4) AS test_accuracy,
            round(eval_accuracy, 4) AS device_accuracy, seconds
       FROM round_summary WHERE job = '$1' ORDER BY round, attempt"
}
