#!/usr/bin/env bash
# redis-benchmark and redis-cli against the server, as a person would use them.
#
#   tests/tools/run.sh        starts HALCYON_BIN, or target/release/halcyon, or target/ci/halcyon, on a free port
#
# The last line is "N passed, N failed"; exit code 0 only when nothing failed.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
binary=${HALCYON_BIN-}
for candidate in "$repository/target/release/halcyon" "$repository/target/ci/halcyon"; do
    [[ $binary || ! -x $candidate ]] || binary=$candidate
done
[[ $binary ]] || { echo "tests/tools: no server; build it or set HALCYON_BIN" >&2 && exit 2; }

directory=$(mktemp -d)
server_pid=
trap '[[ -z $server_pid ]] || kill "$server_pid" 2>/dev/null || true; rm -rf -- "$directory"' EXIT
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$binary" --port "$port" --bind 127.0.0.1 --dir "$directory" --save '' >"$directory/server.log" 2>&1 &
server_pid=$!

cli() { timeout 60 redis-cli -p "$port" "$@"; }

for _ in $(seq 200); do
    [[ $(cli ping 2>/dev/null) == PONG ]] && break
    kill -0 "$server_pid" 2>/dev/null || break
    sleep 0.05
done
[[ $(cli ping 2>/dev/null) == PONG ]] || { echo "tests/tools: $binary did not start:" >&2 && cat "$directory/server.log" >&2 && exit 2; }

passed=0 failed=0
output=$directory/output

check() { # check NAME FUNCTION: the function's output and its exit code decide
    if (set -e && "$2") >"$output" 2>&1; then
        ((passed += 1))
        echo "ok      $1"
    else
        ((failed += 1))
        echo "FAILED  $1"
        tail -n 15 "$output" | sed 's/^/        /'
    fi
}

# `set -e` does not act inside a condition, so every expectation ends the function itself.
expect() { # expect WHAT ACTUAL WANTED
    [[ $2 == "$3" ]] || { echo "$1: got '$2', wanted '$3'" && exit 1; }
}

expect_line() { # expect_line PATTERN FILE
    grep -qE -- "$1" "$2" || { echo "no line matches: $1" && cat "$2" && exit 1; }
}

expect_no_line() {
    ! grep -qiE -- "$1" "$2" || { echo "a line matches: $1" && cat "$2" && exit 1; }
}

# redis-benchmark writes progress with carriage returns; the lines that stay are made of it.
benchmark() { # benchmark FILE ARGUMENTS...
    local file=$1
    shift
    timeout 120 redis-benchmark -p "$port" "$@" >"$file.raw" 2>&1 || { echo "redis-benchmark: exit code $?" && tail -5 "$file.raw" && exit 1; }
    tr '\r' '\n' <"$file.raw" >"$file"
    # Where CONFIG is missing it says so and goes on.
    expect_no_line 'error|could not' "$file"
}

benchmark_default_run() {
    local lines=$directory/benchmark.txt name
    benchmark "$lines" -n 2000 -q -t ping,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange,mset
    for name in PING_INLINE PING_MBULK SET GET INCR LPUSH RPUSH LPOP RPOP SADD HSET SPOP ZADD ZPOPMIN \
        'LPUSH \(needed to benchmark LRANGE\)' 'LRANGE_100 .*' 'LRANGE_300 .*' 'LRANGE_500 .*' 'LRANGE_600 .*' 'MSET \(10 keys\)'; do
        expect_line "^$name: [0-9.]+ requests per second" "$lines"
    done
    expect "GET key:__rand_int__" "$(cli get key:__rand_int__)" "VXK"
    expect "EXISTS of what was pushed" "$(cli exists mylist myhash counter:__rand_int__)" 3
}

benchmark_options() {
    benchmark "$directory/pipelined.txt" -n 20000 -P 16 -r 1000 -q -t set,get,incr -d 64
    benchmark "$directory/reconnecting.txt" -n 1000 -k 0 -q -t ping_mbulk
    benchmark "$directory/resp3.txt" -n 1000 -3 -q -t set,get
    benchmark "$directory/threads.txt" -n 10000 --threads 2 -q -t set,get
    benchmark "$directory/csv.txt" -n 1000 --csv -t get
    expect_line '^"GET","[0-9.]+"' "$directory/csv.txt"
    cli flushall >/dev/null
    benchmark "$directory/keys.txt" -n 20000 -P 16 -r 100000000 -q -t set -d 64
    local keys
    keys=$(cli dbsize)
    ((keys > 19900 && keys <= 20000)) || { echo "$keys keys after 20,000 SETs of random keys" && exit 1; }
}

insert_by_pipe() {
    cli flushall >/dev/null
    python3 - >"$directory/inserts" <<'PYTHON'
import sys
for number in range(10_000):
    words = [b"SET", b"piped:%d" % number, b"value of %d" % number]
    sys.stdout.buffer.write(b"*3\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
PYTHON
    cli --pipe <"$directory/inserts" >"$directory/pipe.txt" 2>&1 || { echo "exit code $?" && cat "$directory/pipe.txt" && exit 1; }
    expect_line '^errors: 0, replies: 10000$' "$directory/pipe.txt"
    expect DBSIZE "$(cli dbsize)" 10000
    expect "one value" "$(cli get piped:9999)" "value of 9999"
    # And it counts errors: the second command is wrong.
    printf 'SET a 1\r\nLPUSH a 1\r\nSET b 2\r\n' | cli --pipe >"$directory/pipe.txt" 2>&1 && exit 1
    expect_line '^errors: 1, replies: 3$' "$directory/pipe.txt"
    cli del a b >/dev/null
}

scan_keys() {
    cli --scan | sort -u >"$directory/scanned"
    expect "keys that --scan prints" "$(wc -l <"$directory/scanned")" 10000
    expect "keys of --pattern" "$(cli --scan --pattern 'piped:12*' | sort -u | wc -l)" 111
    expect "keys of --pattern that none has" "$(cli --scan --pattern 'absent:*' | wc -l)" 0
    expect "key without a match" "$(sort -u "$directory/scanned" | grep -vcE '^piped:[0-9]{1,4}$')" 0
}

biggest_keys() {
    cli rpush biglist 1 2 3 4 5 >/dev/null
    cli sadd bigset a b c >/dev/null
    cli hset bighash f1 v f2 v >/dev/null
    cli zadd bigzset 1 a 2 b 3 c 4 d >/dev/null
    cli set bigstring "$(printf 'x%.0s' $(seq 5000))" >/dev/null
    cli --bigkeys >"$directory/bigkeys.txt" || { echo "exit code $?" && cat "$directory/bigkeys.txt" && exit 1; }
    expect_line 'Sampled 10005 keys' "$directory/bigkeys.txt"
    expect_line 'Biggest +list found .*biglist.* has 5 items' "$directory/bigkeys.txt"
    expect_line 'Biggest +set found .*bigset.* has 3 members' "$directory/bigkeys.txt"
    expect_line 'Biggest +hash found .*bighash.* has 2 fields' "$directory/bigkeys.txt"
    expect_line 'Biggest +zset found .*bigzset.* has 4 members' "$directory/bigkeys.txt"
    expect_line 'Biggest string found .*bigstring.* has 5000 bytes' "$directory/bigkeys.txt"
    cli del biglist bigset bighash bigzset bigstring >/dev/null
}

statistics() {
    timeout 10 redis-cli -p "$port" --stat -i 0.1 >"$directory/stat.raw" 2>&1 &
    local stat_pid=$! line keys memory clients
    for _ in $(seq 100); do
        [[ $(grep -cE '^[0-9]+ ' "$directory/stat.raw") -lt 2 ]] || break
        sleep 0.05
    done
    kill "$stat_pid" 2>/dev/null || true
    expect_line '^keys +mem +clients +blocked +requests +connections' "$directory/stat.raw"
    (($(grep -cE '^[0-9]+ ' "$directory/stat.raw") >= 2)) || { echo "fewer than two lines" && cat "$directory/stat.raw" && exit 1; }
    line=$(grep -E '^[0-9]+ ' "$directory/stat.raw" | tail -n 1)
    read -r keys memory clients _ <<<"$line"
    expect "keys in '$line'" "$keys" "$(cli dbsize)"
    [[ $memory =~ ^[0-9.]+[KMG]$ && $memory != 0* ]] || { echo "memory in '$line': $memory" && exit 1; }
    ((clients >= 1)) || { echo "clients in '$line': $clients" && exit 1; }
}

interactive() {
    expect "several commands from standard input" "$(printf 'set typed 1\nincr typed\nget typed\n' | cli | tr '\n' ' ')" 'OK 2 2 '
    expect "an error's exit code with -e" "$(cli -e nosuchcommand >/dev/null 2>&1; echo $?)" 1
    expect "RESP3" "$(cli -3 ping)" PONG
    expect "repeated with -r" "$(cli -r 3 incr repeated | tail -n 1)" 3
    expect "-x" "$(printf 'from standard input' | cli -x set fromstdin)" OK
    expect "what -x set" "$(cli get fromstdin)" 'from standard input'
    expect "-n" "$(cli -n 5 set elsewhere 1 && cli exists elsewhere && cli -n 5 exists elsewhere)" $'OK\n0\n1'
}

# Libraries go to a real redis-server by FUNCTION DUMP and FUNCTION RESTORE, and come back.
functions_between_servers() {
    local real_pid real_port library name
    real_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    redis-server --port "$real_port" --bind 127.0.0.1 --dir "$directory" --save '' >"$directory/real.log" 2>&1 &
    real_pid=$!
    # The check is a subshell: this ends with it.
    trap "kill $real_pid" EXIT
    real() { timeout 60 redis-cli -p "$real_port" "$@"; }
    for _ in $(seq 200); do
        [[ $(real ping 2>/dev/null) == PONG ]] && break
        sleep 0.05
    done
    for name in short long_a long_b; do
        library=$'#!lua name='$name$'\nredis.register_function{function_name="'$name$'", callback=function() return "'$name$'" end, flags={"no-writes"}}\n'
        # Long ones are compressed; text that does not repeat is not.
        [[ $name != long_a ]] || library+=$(printf -- '-- the same line\n%.0s' $(seq 1000))
        [[ $name != long_b ]] || library+="-- $(head -c 20000 /dev/urandom | base64 -w 0)"
        expect "loading $name" "$(printf %s "$library" | cli -x function load)" "$name"
    done
    # redis-cli ends a reply with a line break of its own.
    cli function dump | head -c -1 >"$directory/ours.dump"
    expect "the real server takes ours" "$(real -x function restore <"$directory/ours.dump")" OK
    expect "what it has then" "$(real function list withcode | sort)" "$(cli function list withcode | sort)"
    real function dump | head -c -1 >"$directory/theirs.dump"
    expect "we have them already" "$(cli -x function restore <"$directory/theirs.dump" 2>&1 | head -n 1 | sed 's| Library [^ ]* already| Library NAME already|')" \
        "ERR Library NAME already exists"
    expect "we forget ours" "$(cli function flush)" OK
    expect "we take theirs" "$(cli -x function restore <"$directory/theirs.dump")" OK
    expect "what we have then" "$(cli function list withcode | sort)" "$(real function list withcode | sort)"
    for name in short long_a long_b; do
        expect "FCALL_RO $name" "$(cli fcall_ro $name 0)" "$name"
    done
    cli function flush >/dev/null
}

still_well() {
    kill -0 "$server_pid" || { echo "the server is gone" && cat "$directory/server.log" && exit 1; }
    expect PING "$(cli ping)" PONG
    expect_no_line 'panic' "$directory/server.log"
}

check "redis-benchmark, default run" benchmark_default_run
check "redis-benchmark, options" benchmark_options
check "redis-cli --pipe" insert_by_pipe
check "redis-cli --scan" scan_keys
check "redis-cli --bigkeys" biggest_keys
check "redis-cli --stat" statistics
check "redis-cli, plain" interactive
check "FUNCTION DUMP and RESTORE, to redis-server and back" functions_between_servers
check "the server afterwards" still_well

echo "$passed passed, $failed failed"
((failed == 0))
