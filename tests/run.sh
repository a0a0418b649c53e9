#!/usr/bin/env bash
# Sets up what the tests need and runs all of them. See usage().
set -euo pipefail

usage() {
  cat <<'EOT'
usage: tests/run.sh

Stages: setup, fmt, build, clippy, doc, deny, kafka, tests, web, chaos, ignored,
faults, rules.
All of them run, except that nothing follows where Rust is missing or the build fails.
All cargo calls use the release profile, so librdkafka is built once. The stage faults
builds with the feature deliberate-faults: the simulation must find each of them.

Needs Rust, which it never installs. As root on Debian it installs what else is
missing: a C and C++ compiler, make and perl for librdkafka and OpenSSL, procps,
Java 17 or newer and Maven for the test broker, Prometheus and promtool for the
metrics, Chromium and Node.js 20 or newer with npm for the status page (CHROMIUM is
the path of another browser of its kind). Elsewhere it names what is missing.

The whole output is in target/run/. The stage chaos prints a row of counts for each
fault; with CHAOS=long it has many of each and takes up to an hour. Where
KAFKA_BOOTSTRAP is set, the broker tests use that cluster. What the tests leave running is ended. The last line is
"N passed, N failed": the tests of cargo, and each other stage as one. Tests
marked to be ignored are run as well, with a broker of their own. Exit status:
0 none failed, 1 otherwise.
EOT
}

case $# in
  0) ;;
  *)
    usage
    [[ $1 == --help || $1 == -h ]] || exit 2
    exit 0
    ;;
esac

# Lines of mere progress: the logs have them, the screen does not.
PROGRESS='^ +(Updating|Locking|Adding|Download(ed|ing)|Compiling|Checking|Documenting|Executable|Running unittests) |^test .* ok$|^running [0-9]+ tests?$|^$'

cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
logs=$target/run
mkdir -p "$logs"
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:$target/tools
export CARGO_TERM_COLOR=never CARGO_TERM_PROGRESS_WHEN=never CARGO_NET_RETRY=5
# All that the stages start inherits this: it tells a broker of this run from
# that of another.
export TESTS_RUN_ID=$$-$RANDOM$RANDOM

passed=0 failed=0 ignored=0 broken=()

# The processes of the stages that are still there.
left() {
  local path
  for path in /proc/[0-9]*; do
    if [[ ${path#/proc/} != "$$" ]] && grep -qzxF "TESTS_RUN_ID=$TESTS_RUN_ID" "$path/environ" 2>/dev/null; then
      echo "${path#/proc/}"
    fi
  done
}

# Ends them: brokers above all, which have sessions of their own.
end_left() {
  local pids until=$((SECONDS + 20))
  mapfile -t pids < <(left)
  ((${#pids[@]})) || return 0
  echo "run: ending what was left running: ${pids[*]}"
  kill "${pids[@]}" 2>/dev/null || true
  while ((${#pids[@]} && SECONDS < until)); do
    sleep 0.2
    mapfile -t pids < <(left)
  done
  if ((${#pids[@]})); then kill -KILL "${pids[@]}" 2>/dev/null || true; fi
}
trap end_left EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# stage NAME MINUTES COMMAND...: runs it; returns its status.
stage() {
  local name=$1 minutes=$2 began=$SECONDS status=0 out log child
  shift 2
  echo "== $name"
  # The log is not of the stage: it ends when all that write to it have.
  # shellcheck disable=SC2016
  exec {out}> >(exec env -u TESTS_RUN_ID bash -c 'trap "" INT; tee "$0" | grep -vE --line-buffered "$1"' \
    "$logs/$name.log" "$PROGRESS")
  log=$!
  # In the background, so that a signal is acted on at once; bash would have a
  # background command ignore some.
  env --default-signal timeout --kill-after=20 "${minutes}m" "$@" >&"$out" 2>&1 &
  child=$!
  exec {out}>&-
  wait "$child" || status=$?
  end_left
  wait "$log" || true
  ((status != 124 && status != 137)) || echo "run: $name was ended after $minutes minutes"
  if ((status)); then
    broken+=("$name")
    echo "-- $name: failed with status $status after $((SECONDS - began)) s"
  else
    echo "-- $name: ok, $((SECONDS - began)) s"
  fi
  return "$status"
}

check() { # check NAME MINUTES COMMAND...: a stage that counts as one test
  local status=0
  stage "$@" || status=$?
  if ((status)); then failed=$((failed + 1)); else passed=$((passed + 1)); fi
  return "$status"
}

# cargo_tests NAME MINUTES COMMAND...: a stage that counts each of cargo's tests;
# leaves in $ignored how many it did not run.
cargo_tests() {
  local status=0 ok bad
  stage "$@" || status=$?
  read -r ok bad ignored < <(awk '
    /^test result:/ {
      for (i = 2; i <= NF; i++) {
        if ($i ~ /^passed/) ok += $(i - 1)
        if ($i ~ /^failed/) bad += $(i - 1)
        if ($i ~ /^ignored/) ignored += $(i - 1)
      }
    }
    END { print ok + 0, bad + 0, ignored + 0 }' "$logs/$1.log")
  # A test program that crashed or was ended has no result line.
  if ((status && bad == 0 || ok + bad == 0)); then bad=1; fi
  passed=$((passed + ok)) failed=$((failed + bad))
}

# What is marked to be ignored, for want of a broker, with a broker. end_left ends it.
# shellcheck disable=SC2016 # for the shell of the stage to expand
with_broker='set -euo pipefail
if [[ ! ${KAFKA_BOOTSTRAP:-} ]]; then
  bootstrap=$(bash tests/support/kafka start --dir "$0" --port $((20000 + RANDOM % 10000)) | tail -1)
  export KAFKA_BOOTSTRAP=${bootstrap#bootstrap=}
fi
exec "$@"'

rules() { # what Prometheus is given: the scrape example, rules and their tests
  local files tests file
  [[ -d deploy ]] || return 0
  mapfile -t files < <(grep -rlE --include='*.yml' --include='*.yaml' '^groups:' deploy | sort)
  mapfile -t tests < <(grep -rlE --include='*.yml' --include='*.yaml' '^rule_files:' deploy | sort)
  check scrape 2 promtool check config deploy/prometheus/prometheus.yml || true
  if ((${#files[@]})); then check rules 2 promtool check rules "${files[@]}" || true; fi
  for file in "${tests[@]}"; do
    # Prometheus' own configuration names rule files too.
    if grep -q '^tests:' "$file"; then check "${file//\//-}" 2 promtool test rules "$file" || true; fi
  done
}

finish() {
  echo
  echo "run: $SECONDS s, logs in $logs"
  ((${#broken[@]} == 0)) || echo "run: failed: ${broken[*]}"
  echo "$passed passed, $failed failed"
  ((failed == 0)) || exit 1
  exit 0
}

status=0
check setup 10 bash tests/support/setup || status=$?
((status != 3)) || finish
check fmt 2 cargo fmt --check || true
check build 25 cargo test --release --locked --no-run || finish
check clippy 10 cargo clippy --release --all-targets --locked -- -D warnings || true
check doc 5 env RUSTDOCFLAGS=-Dwarnings cargo doc --release --locked --no-deps --document-private-items || true
check deny 15 bash tests/support/deny || true
if [[ ! ${KAFKA_BOOTSTRAP:-} ]]; then check kafka 5 bash tests/support/kafka fetch || true; fi
cargo_tests tests 35 cargo test --release --locked --no-fail-fast -- --skip chaos::
skipped=$ignored
# The status page in a browser, the dashboards by Grafana's schema.
check web 10 bash -c 'cd tests/web && npm ci && exec node --test --test-reporter=spec' || true
# Faults of processes and brokers, a row of counts each; CHAOS=long makes it many.
cargo_tests chaos "$([[ ${CHAOS:-} == long ]] && echo 60 || echo 15)" \
  cargo test --release --locked --test broker -- chaos::
ignored=$skipped
if ((ignored)); then
  rm -rf "$target/run/broker"
  cargo_tests ignored 10 bash -c "$with_broker" "$target/run/broker" \
    cargo test --release --locked --no-fail-fast -- --ignored
fi
check clippy-faults 10 cargo clippy --release --locked --features deliberate-faults --lib --test simulation -- -D warnings || true
cargo_tests faults 20 cargo test --release --locked --features deliberate-faults --test simulation -- --nocapture
rules
finish
