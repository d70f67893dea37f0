#!/usr/bin/env bash
# Runs real applications' libraries, each through its own API, against a Redis-compatible server.
#
#   tests/applications/run.sh [--port P] [names...]
#
# Without --port it starts the server itself on a free port: HALCYON_BIN, or target/release/halcyon, or target/ci/halcyon.
# With --port it uses what listens there on 127.0.0.1 and FLUSHES it. Names: celery django bullmq socket.io asynq redisson sidekiq.
# What it downloads and builds stays in tests/applications/.cache. The last line is "N passed, N failed".
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../.." && pwd)
cache=$here/.cache
seconds_max=180 # for one application
all=(celery django bullmq socket.io asynq redisson sidekiq)
port= selected=()

while (($#)); do
    case $1 in
    --port) port=${2:?--port needs a number} && shift 2 ;;
    -h | --help) sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" && exit 0 ;;
    *)
        [[ " ${all[*]} " == *" $1 "* ]] || { echo "no application is called $1; there are: ${all[*]}" >&2 && exit 2; }
        selected+=("$1") && shift
        ;;
    esac
done
((${#selected[@]})) || selected=("${all[@]}")
mkdir -p "$cache"

prepare_python() {
    python3 -m venv --clear "$cache/python" &&
        "$cache/python/bin/pip" install -q --disable-pip-version-check -r "$here/python/requirements.txt"
}
prepare_node() {
    mkdir -p "$cache/node" && cp "$here/node/"*.json "$cache/node/" &&
        (cd "$cache/node" && npm install --omit=optional --no-audit --no-fund --ignore-scripts)
}
prepare_go() {
    (cd "$here/go" && GOMODCACHE=$cache/go/modules GOCACHE=$cache/go/build \
        GOFLAGS="-mod=readonly -modcacherw -buildvcs=false" go build -o "$cache/asynq" .)
}
prepare_java() {
    mvn -q -B -f "$here/java/pom.xml" -Dmaven.repo.local="$cache/m2" \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory="$cache/java/jars" &&
        javac -nowarn -encoding UTF-8 -d "$cache/java/classes" -cp "$cache/java/jars/*" "$here/java/Locks.java"
}
prepare_ruby() { command -v sidekiq; }

prepare() { # LANGUAGE: once, unless its inputs changed
    local print
    print=$({ find "$here/$1" -type f -print0 | sort -z | xargs -0 cat && declare -f "prepare_$1"; } | sha256sum)
    [[ -e $cache/$1.stamp && $(<"$cache/$1.stamp") == "$print" ]] && return 0
    echo "preparing $1 ..."
    if ! "prepare_$1" >"$cache/prepare-$1.log" 2>&1 && ! "prepare_$1" >>"$cache/prepare-$1.log" 2>&1; then
        tail -n 20 "$cache/prepare-$1.log" >&2
        return 1
    fi
    echo "$print" >"$cache/$1.stamp"
}

language_of() {
    case $1 in
    celery | django) echo python ;;
    bullmq | socket.io) echo node ;;
    asynq) echo go ;;
    redisson) echo java ;;
    sidekiq) echo ruby ;;
    esac
}

run() { # APPLICATION
    case $1 in
    celery) "$cache/python/bin/python" "$here/python/celery_app.py" ;;
    django) "$cache/python/bin/python" "$here/python/django_cache.py" ;;
    bullmq | socket.io) cp "$here/node/"*.mjs "$cache/node/" && (cd "$cache/node" && node "${1/./}.mjs") ;;
    asynq) "$cache/asynq" ;;
    redisson) java -cp "$cache/java/classes:$cache/java/jars/*" Locks ;;
    sidekiq) ruby "$here/ruby/sidekiq_app.rb" ;;
    esac
}

server_pid= directory=
stop() {
    [[ -z $server_pid ]] || { kill "$server_pid" 2>/dev/null && wait "$server_pid" 2>/dev/null; } || true
    [[ -z $directory ]] || rm -rf -- "$directory"
}
trap stop EXIT
if [[ -z $port ]]; then
    binary=${HALCYON_BIN:-$repository/target/release/halcyon}
    [[ -x $binary ]] || binary=$repository/target/ci/halcyon
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    # What it saves goes with it.
    directory=$(mktemp -d)
    "$binary" --port "$port" --bind 127.0.0.1 --io-threads 2 --dir "$directory" >"$cache/server.log" 2>&1 &
    server_pid=$!
    for _ in $(seq 100); do redis-cli -p "$port" ping 2>/dev/null | grep -q PONG && break || sleep 0.1; done
fi
export PORT=$port

passed=0 failed=0
for name in "${selected[@]}"; do
    redis-cli -p "$port" flushall >/dev/null
    began=$SECONDS

    if prepare "$(language_of "$name")" && { run "$name" >"$cache/$name.log" 2>&1 & } && wait_for=$!; then
        for ((waited = 0; waited < seconds_max * 10; waited++)); do kill -0 "$wait_for" 2>/dev/null && sleep 0.1 || break; done
        kill "$wait_for" 2>/dev/null || true
        if wait "$wait_for"; then
            echo "$name: $(grep -c "^${name%%_*}:" "$cache/$name.log" || true) checks, $((SECONDS - began)) s"
            passed=$((passed + 1))
            continue
        fi
    fi
    echo "$name FAILED:"
    tail -n 25 "$cache/$name.log" 2>/dev/null || true
    failed=$((failed + 1))
done
[[ -z $server_pid ]] || kill -0 "$server_pid" || { echo "the server died:" && tail -n 20 "$cache/server.log" && failed=$((failed + 1)); }
echo "$passed passed, $failed failed"
((failed == 0))
