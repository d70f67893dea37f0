#!/usr/bin/env bash
# Runs real client libraries, each through its own API, against a Redis-compatible server: alone and in cluster mode.
#
#   tests/clients/run.sh [--port P] [--cluster-port C] [--changes [--rounds N]] [names...]
#
# Without ports it starts the server itself, twice, on free ports: HALCYON_BIN, or target/release/halcyon, or
# target/ci/halcyon. With --port or --cluster-port it uses what listens there on 127.0.0.1 and FLUSHES it; the mode
# without a port is skipped. A name selects every client whose name starts with it (go, jedis-7, redis-py).
# redis-py, ioredis and go-redis also run over TLS, alone and in cluster mode, against the servers that it starts itself.
# Then all cluster clients work at once on a cluster on etcd whose slots move and whose primaries hand over and are killed
# (changes.md); not where a port is given. With --changes nothing else is done, but each client has all that for itself, and
# slots are moved by redis-cli, too.
# What it downloads and builds stays in tests/clients/.cache; logs of each run in tests/clients/.cache/logs.
# The last line is "N passed, N failed"; exit code 0 only when nothing failed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../.." && pwd)
cache=$here/.cache
logs=$cache/logs
all=(redis-py-4.6 redis-py-8.1 go-redis-v6 go-redis-v7 go-redis-v8 go-redis-v9 jedis-2.9.3 jedis-3.10.0 jedis-7.5.3
    ioredis-5 node-redis-5 node-redis-6 redis-rs-1.8 hiredis)
all_changing=(redis-py-4.6 redis-py-7.1 redis-py-8.1 go-redis-v6 go-redis-v7 go-redis-v8 go-redis-v9
    jedis-2.9.3 jedis-3.10.0 jedis-7.5.3 lettuce-5.3.7 lettuce-7.7.0 ioredis-4 ioredis-5 node-redis-5 node-redis-6 redis-rs-1.8)
seconds_max=180 # for one client in one mode

die() {
    echo "tests/clients: $*" >&2
    exit 2
}

usage() {
    sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
    echo "Names: ${names[*]}"
}

read -ra names <<<"$(printf '%s\n' "${all[@]}" "${all_changing[@]}" | sort -Vu | tr '\n' ' ')"
port= cluster_port= tls_port= tls_cluster_port= only_changes= rounds=2 wanted=()
while (($#)); do
    case $1 in
    --port) port=${2:?--port needs a number} && shift 2 ;;
    --cluster-port) cluster_port=${2:?--cluster-port needs a number} && shift 2 ;;
    --changes) only_changes=yes && shift ;;
    --rounds) rounds=${2:?--rounds needs a number} && shift 2 ;;
    -h | --help) usage && exit 0 ;;
    -*) die "unknown option $1 (see --help)" ;;
    *)
        [[ " ${names[*]}" == *" $1"* ]] || die "no client is called $1; there are: ${names[*]}"
        wanted+=("$1")
        shift
        ;;
    esac
done

is_wanted() { # NAME: does what was asked for select it?
    local word
    for word in "${wanted[@]-}"; do [[ $1 == "$word"* ]] && return 0; done
    return 1
}

selected=() changing=()
for name in "${all[@]}"; do [[ $only_changes ]] || ! is_wanted "$name" || selected+=("$name"); done
for name in "${all_changing[@]}"; do [[ $port || $cluster_port ]] || ! is_wanted "$name" || changing+=("$name"); done

# ---- What has to be installed -------------------------------------------------------------------------------------

any() { # any PREFIX: is a client with this prefix selected?
    local name
    for name in "${selected[@]}" "${changing[@]}"; do [[ $name == "$1"* ]] && return 0; done
    return 1
}

has() { command -v "$1" >/dev/null 2>&1; }

packages=()
if any redis-py && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then packages+=(python3-venv); fi
if any go-redis && ! has go; then packages+=(golang-go); fi
if any jedis || any lettuce; then
    has javac || packages+=(default-jdk)
    has mvn || packages+=(maven)
fi
if any ioredis || any node-redis; then
    has node || packages+=(nodejs)
    has npm || packages+=(npm)
fi
if any hiredis; then
    has gcc || packages+=(gcc libc6-dev)
    [[ -e /usr/include/hiredis/hiredis.h || -e /usr/local/include/hiredis/hiredis.h ]] || packages+=(libhiredis-dev)
fi
if ((${#packages[@]})); then
    if has apt-get && [[ $(id -u) == 0 ]]; then
        echo "installing Debian packages: ${packages[*]}"
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null 2>&1 ||
            { apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
                --no-install-recommends "${packages[@]}" >/dev/null; } || die "apt-get could not install ${packages[*]}"
    else
        die "missing packages; install them with: sudo apt-get install ${packages[*]}"
    fi
fi
if any redis-rs && ! has cargo; then die "cargo is missing: install Rust as described in CONTRIBUTING.md"; fi
if any go-redis; then
    go_version=$(cd / && go env GOVERSION) # go1.26.8
    go_minor=${go_version#go1.} && go_minor=${go_minor%%[!0-9]*}
    ((${go_minor:-0} >= 21)) || die "$go_version is too old: go-redis 9.23 needs Go 1.26 (1.21 or later fetches it by itself)"
fi
if any ioredis || any node-redis; then
    node_major=$(node -p 'process.versions.node.split(".")[0]')
    ((node_major >= 20)) || die "node $node_major is too old: node-redis 6 needs 20 or later"
fi

# ---- Fetching and building, each step only when its inputs changed -------------------------------------------------

step() { # step NAME "INPUTS" COMMAND...: runs it unless it has succeeded before with the same inputs
    local name=$1 inputs=$2 stamp=$cache/stamps/$1 print began=$SECONDS
    shift 2
    # shellcheck disable=SC2086 # a list of files
    print=$({ cd "$here" && cat $inputs && declare -f "$1" && echo "$*"; } | sha256sum)
    [[ -e $stamp && $(<"$stamp") == "$print" ]] && return 0
    echo "preparing $name ..."
    if ! (set -e && cd "$here" && "$@") >"$logs/prepare-$name.log" 2>&1 &&
        ! (echo "--- again" && sleep 2 && set -e && cd "$here" && "$@") >>"$logs/prepare-$name.log" 2>&1; then
        tail -n 30 "$logs/prepare-$name.log" >&2
        echo "preparing $name FAILED" >&2
        return 1
    fi
    echo "$print" >"$stamp"
    echo "preparing $name took $((SECONDS - began)) s"
}

prepare_python() { # VERSION
    python3 -m venv --clear "$cache/python-$1" &&
        "$cache/python-$1/bin/pip" install -q --disable-pip-version-check -r "python/requirements-$1.txt"
}

go_environment() {
    export GOMODCACHE=$cache/go/modules GOCACHE=$cache/go/build GOFLAGS="-mod=readonly -modcacherw"
    # A directory that git may not read must not fail the build for its version stamp.
    GOFLAGS+=" -buildvcs=false"
}

prepare_go_modules() { (cd go && go_environment && go mod download); }

prepare_go() { # VERSION PROGRAM
    (cd go && go_environment && go build -tags "$1" -o "$cache/bin/go-redis-$1" "./$2")
}

prepare_go_changing() { # VERSION
    (cd go && go_environment && go build -tags "$1" -o "$cache/bin/changing-go-redis-$1" ./changes)
}

prepare_jars() { # GROUP ARTIFACT VERSION FOLDER
    rm -rf "$cache/$4" &&
        mvn -q -B -f java/pom.xml -Dmaven.repo.local="$cache/m2" -Dgroup="$1" -Dartifact="$2" -Drelease="$3" \
            org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory="$cache/$4"
}

prepare_java_changing() { # NAME FOLDER
    rm -rf "$cache/changing-$1" && mkdir -p "$cache/changing-$1" &&
        javac -nowarn -encoding UTF-8 -d "$cache/changing-$1" -cp "$cache/$1/*" java/changes/Changes.java java/changes/"$2"/*.java
}

prepare_jedis() { # VERSION FOLDER
    rm -rf "$cache/classes-$1" && mkdir -p "$cache/classes-$1" &&
        javac -nowarn -encoding UTF-8 -d "$cache/classes-$1" -cp "$cache/jedis-$1/*" java/Daily.java java/"$2"/*.java
}

prepare_node() {
    mkdir -p "$cache/node" && cp node/package.json node/package-lock.json "$cache/node/" &&
        (cd "$cache/node" && npm ci --omit=optional --no-audit --no-fund --ignore-scripts)
}

prepare_rust() { (cd rust && CARGO_TARGET_DIR=$cache/cargo cargo build --locked -q); }

prepare_c() {
    gcc -std=gnu11 -O1 -Wall -Wextra -Wno-format-truncation -pthread -o "$cache/bin/hiredis" c/client.c -lhiredis
}

jars() { # NAME
    case $1 in
    jedis-*) step "$1-jars" java/pom.xml prepare_jars redis.clients jedis "${1#jedis-}" "$1" ;;
    lettuce-*) step "$1-jars" java/pom.xml prepare_jars io.lettuce lettuce-core "${1#lettuce-}.RELEASE" "$1" ;;
    esac
}

go_modules() { step go-modules "go/go.mod go/go.sum" prepare_go_modules; }

node_modules() { step node "node/package.json node/package-lock.json" prepare_node; }

redis_rs() {
    local sources="rust/src/main.rs rust/src/checks.rs rust/src/bin/changes.rs"
    step redis-rs "rust/Cargo.toml rust/Cargo.lock rust/build.rs $sources" prepare_rust
}

prepare() { # NAME
    case $1 in
    redis-py-*) step "$1" python/requirements-"${1#redis-py-}".txt prepare_python "${1#redis-py-}" ;;
    go-redis-*)
        local program=modern version=${1#go-redis-}
        [[ $version == v[67] ]] && program=legacy
        go_modules && step "$1" "go/go.mod go/go.sum go/check/check.go go/$program/main.go go/$program/api_$version.go" \
            prepare_go "$version" "$program"
        ;;
    jedis-*)
        local version=${1#jedis-} folder
        folder=v${version%%.*}
        jars "$1" && step "$1" "java/pom.xml java/Daily.java java/$folder/Api.java java/$folder/Library.java" \
            prepare_jedis "$version" "$folder"
        ;;
    ioredis-* | node-redis-*) node_modules ;;
    redis-rs-*) redis_rs ;;
    hiredis) step hiredis c/client.c prepare_c ;;
    esac
}

prepare_changing() { # NAME
    local folder=lettuce version=${1##*-}
    case $1 in
    go-redis-*)
        go_modules && step "changing-$1" \
            "go/go.mod go/go.sum go/changes/main.go go/changes/legacy.go go/changes/modern.go go/changes/api_$version.go" \
            prepare_go_changing "$version"
        ;;
    jedis-* | lettuce-*)
        [[ $1 == lettuce-* ]] || folder=v${version%%.*}
        jars "$1" && step "changing-$1" "java/pom.xml java/changes/Changes.java java/changes/$folder/Library.java" \
            prepare_java_changing "$1" "$folder"
        ;;
    *) prepare "$1" ;;
    esac
}

# ---- Running -------------------------------------------------------------------------------------------------------

run() { # NAME arguments...: the client's program
    local name=$1
    shift
    case $name in
    redis-py-*) "$cache/python-${name#redis-py-}/bin/python" "$here/python/client.py" "$@" ;;
    go-redis-* | hiredis) "$cache/bin/$name" "$@" ;;
    jedis-*) java -Dfile.encoding=UTF-8 -cp "$cache/classes-${name#jedis-}:$cache/jedis-${name#jedis-}/*" Daily "$@" ;;
    ioredis-*) CLIENT_MODULES=$cache/node/node_modules node "$here/node/ioredis.mjs" "$@" ;;
    node-redis-*)
        CLIENT_MODULES=$cache/node/node_modules CLIENT_LIBRARY=redis-${name##*-} node "$here/node/node-redis.mjs" "$@"
        ;;
    redis-rs-*) "$cache/cargo/debug/redis-rs-client-test" "$@" ;;
    esac
}

changing_command() { # NAME: the command of its program for changes.py
    local command=() library
    case $1 in
    redis-py-*) command=("$cache/python-${1#redis-py-}/bin/python" "$here/python/changes.py") ;;
    go-redis-*) command=("$cache/bin/changing-$1") ;;
    jedis-* | lettuce-*) command=(java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$cache/changing-$1:$cache/$1/*" Changes) ;;
    ioredis-* | node-redis-*)
        library=${1#node-}
        [[ $1 == ioredis-5 ]] && library=ioredis
        command=(env "CLIENT_MODULES=$cache/node/node_modules" "CLIENT_LIBRARY=$library" node "$here/node/changes.mjs")
        ;;
    redis-rs-*) command=("$cache/cargo/debug/changes") ;;
    esac
    printf '%s\t' "$1"
    printf '%q ' "${command[@]}"
    echo
}

run_bounded() { # as run, ended after seconds_max
    (
        run "$@" &
        client=$!
        (
            trap 'kill "$nap" 2>/dev/null; exit' TERM
            sleep "$seconds_max" &
            nap=$!
            wait "$nap"
            echo "  FAIL not done after $seconds_max s"
            kill -KILL "$client"
        ) 2>/dev/null &
        guard=$!
        verdict=0
        wait "$client" || verdict=$?
        kill "$guard" 2>/dev/null || true
        wait "$guard" 2>/dev/null || true
        exit "$verdict"
    )
}

takes_part() { # NAME MODE: does the client run in this mode?
    [[ $2 != tls-* || $1 == redis-py-* || $1 == ioredis-* || $1 == go-redis-* ]]
}

run_mode() { # MODE PORT: all selected clients, one after the other (they share the server's keys)
    local mode=$1 name log last began kind=${1#tls-} arguments=(--port "$2")
    [[ $kind == cluster ]] && arguments+=(--cluster)
    if [[ $mode == tls-* ]]; then export CLIENT_TLS_CA=$temporary/ca.crt; fi
    for name in "${selected[@]}"; do
        takes_part "$name" "$mode" || continue
        log=$logs/$name-$mode.log began=$SECONDS
        if [[ -e $logs/unprepared-$name ]]; then
            echo "client $name $mode: could not be prepared" >"$log"
            echo "failed 0 $name $mode: could not be prepared" >>"$logs/verdicts-$mode"
            continue
        fi
        if run_bounded "$name" "${arguments[@]}" >"$log" 2>&1; then verdict=passed; else verdict=failed; fi
        last=$(tail -n 1 "$log")
        [[ $last =~ ^client\ .*\ $kind:\ [1-9][0-9]*\ checks\ passed$ ]] || verdict=failed
        echo "$verdict $((SECONDS - began)) $name ${last#client }" >>"$logs/verdicts-$mode"
        echo "$verdict: $last"
        if [[ $verdict == failed ]]; then { grep -A 6 -E '^  FAIL' "$log" || tail -n 15 "$log"; } | cut -c1-300 | head -n 25; fi
    done
}

servers=() temporary=
cleanup() {
    local pid
    for pid in "${servers[@]-}"; do
        [[ $pid ]] && kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    [[ $temporary ]] && rm -rf "$temporary"
    return 0
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

answers() { # PORT: does a server say PONG there?
    local reply=
    { exec 9<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
    printf 'PING\r\n' >&9 && read -r -t 2 reply <&9 || true
    exec 9>&-
    [[ $reply == +PONG* ]]
}

start_server() { # MODE [options...]: sets started_port
    local mode=$1 attempt pid directory tls
    shift
    for attempt in 1 2 3 4 5; do
        started_port=$((20000 + RANDOM % 10000))
        if (exec 9<>"/dev/tcp/127.0.0.1/$started_port") 2>/dev/null; then continue; fi
        directory=$temporary/$mode-$attempt
        mkdir -p "$directory"
        tls=()
        [[ $mode != tls-* ]] || tls=(--tls-port $((started_port + 10000)))
        (cd "$directory" && exec "$binary" --port "$started_port" --bind 127.0.0.1 "${tls[@]}" "$@") >"$logs/server-$mode.log" 2>&1 &
        pid=$!
        servers+=("$pid")
        for _ in $(seq 100); do
            kill -0 "$pid" 2>/dev/null || break
            answers "$started_port" && kill -0 "$pid" 2>/dev/null && return 0
            sleep 0.1
        done
    done
    tail -n 20 "$logs/server-$mode.log" >&2
    die "$binary does not start ($mode)"
}

make_certificates() { # sets certificate: the options of a server that has one for 127.0.0.1, whose authority is ca.crt
    local subject=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
    if ! (
        cd "$temporary" && echo subjectAltName=IP:127.0.0.1 >extensions &&
            openssl req -x509 "${subject[@]}" -days 30 -subj "/CN=Halcyon test" -keyout ca.key -out ca.crt &&
            openssl req "${subject[@]}" -subj /CN=127.0.0.1 -keyout server.key -out server.csr &&
            openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -set_serial 1 -days 30 -extfile extensions -out server.crt
    ) >"$logs/certificates.log" 2>&1; then
        cat "$logs/certificates.log" >&2
        die "openssl could not make certificates"
    fi
    certificate=(--tls-cert-file "$temporary/server.crt" --tls-key-file "$temporary/server.key" --tls-auth-clients no)
}

mkdir -p "$cache/stamps" "$cache/bin" "$logs"
rm -f "$logs"/verdicts-* "$logs"/unprepared-*

if [[ ! $port && ! $cluster_port ]]; then
    binary=${HALCYON_BIN:-}
    for candidate in "$repository/target/release/halcyon" "$repository/target/ci/halcyon"; do
        [[ ! $binary && -x $candidate ]] && binary=$candidate
    done
    [[ $binary ]] || die "no server: build one (cargo build --release), or give HALCYON_BIN, --port or --cluster-port"
    binary=$(command -v "$binary") || die "$HALCYON_BIN is not a program"
    [[ $binary == /* ]] || binary=$PWD/$binary
fi

for name in "${selected[@]}"; do prepare "$name" || : >"$logs/unprepared-$name"; done

passed=0 failed=0
: >"$logs/changing"
for name in "${changing[@]}"; do
    if prepare_changing "$name"; then
        changing_command "$name" >>"$logs/changing"
    else
        echo "FAILED  $name: could not be prepared"
        failed=$((failed + 1))
    fi
done

change() { # arguments...: runs changes.py and adds what it counts
    local verdict
    HALCYON_BIN=$binary python3 "$here/changes.py" "$logs/changing" "$@" | tee "$logs/changes.log" || true
    verdict=$(tail -n 1 "$logs/changes.log")
    if [[ $verdict =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    else
        failed=$((failed + 1))
    fi
}

if [[ $only_changes ]]; then
    for mover in halcyon redis-cli; do
        echo "slots are moved by $mover:"
        change --alone --rounds "$rounds" --by "$mover"
    done
    echo "$passed passed, $failed failed"
    exit $((failed > 0))
fi

if [[ ! $port && ! $cluster_port ]]; then
    temporary=$(mktemp -d)
    make_certificates
    start_server alone && port=$started_port
    start_server cluster --cluster-enabled yes && cluster_port=$started_port
    # 20,000 to 29,999 are the plain ports.
    start_server tls-alone "${certificate[@]}" && tls_port=$((started_port + 10000))
    start_server tls-cluster "${certificate[@]}" --cluster-enabled yes && tls_cluster_port=$((started_port + 10000))
    echo "server: $binary on port $port, in cluster mode on port $cluster_port"
fi
for one in $port $cluster_port; do answers "$one" || die "nothing answers PING on 127.0.0.1:$one"; done

lanes=()
if [[ $port ]]; then run_mode alone "$port" & lanes+=($!); fi
if [[ $cluster_port ]]; then run_mode cluster "$cluster_port" & lanes+=($!); fi
if [[ $tls_port ]]; then (run_mode tls-alone "$tls_port" && run_mode tls-cluster "$tls_cluster_port") & lanes+=($!); fi
for lane in "${lanes[@]}"; do wait "$lane" || true; done

echo
printf '%-14s %-11s %-8s %5s  %s\n' client mode result secs "last line"
for name in "${selected[@]}"; do
    for mode in ${port:+alone} ${cluster_port:+cluster} ${tls_port:+tls-alone tls-cluster}; do
        takes_part "$name" "$mode" || continue
        line=$(grep -E "^[a-z]+ [0-9]+ $name " "$logs/verdicts-$mode" 2>/dev/null || echo "failed 0 $name no verdict")
        read -r verdict secs _ rest <<<"$line"
        printf '%-14s %-11s %-8s %5s  %s\n' "$name" "$mode" "$verdict" "$secs" "$rest"
        if [[ $verdict == passed ]]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    done
done
if ((${#changing[@]})); then
    echo
    change
fi
echo "$passed passed, $failed failed"
((failed == 0))
