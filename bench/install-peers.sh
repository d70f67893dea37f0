#!/usr/bin/env bash
# Installs the newest Redis 8 and Valkey 9 that Debian packages (suite `sid`) for `make bench` to measure against.
#
#   bench/install-peers.sh [DIRECTORY]      default: ~/.cache/halcyon-peers
#
# The packages go into a small Debian tree of their own, so that this machine's libraries stay as they are, and run
# as ordinary processes: with the tree's dynamic loader and libraries, without chroot. Launchers are written to
# DIRECTORY/bin/redis8-server and DIRECTORY/bin/valkey9-server. Needs root, Debian or Ubuntu, about 600 MB and a minute.
set -euo pipefail

directory=${1:-$HOME/.cache/halcyon-peers}
tree=$directory/sid
log=$directory/install.log

stop() {
    echo "install-peers: $*" >&2
    exit 1
}

# The mirror this machine already uses serves `sid` too.
debian_mirror() {
    local sources
    sources=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
    sed -n -E '/^[[:space:]]*#/d; s,.*(https?://[^[:space:]]+/debian)(/?)([[:space:]].*)?$,\1,p' <<<"$sources" | head -n 1
}

install_tree() {
    [[ $(id -u) == 0 ]] || stop "must run as root: debootstrap unpacks a Debian tree"
    if ! command -v debootstrap >/dev/null; then
        command -v apt-get >/dev/null || stop "install debootstrap first"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq debootstrap >/dev/null
    fi
    local mirror
    mirror=$(debian_mirror)
    [[ $mirror ]] || stop "no Debian mirror in apt's configuration"
    mkdir -p "$directory"
    # An interrupted attempt leaves a tree that debootstrap would not finish.
    rm -rf -- "$tree"
    echo "install-peers: unpacking Redis and Valkey from $mirror into $tree"
    debootstrap --variant=minbase --include=redis-server,valkey-server sid "$tree" "$mirror" >"$log" 2>&1 ||
        stop "debootstrap failed; its output is in $log"
}

write_launcher() { # write_launcher NAME PROGRAM
    local loader library_path
    loader=$(find -L "$tree/lib64" "$tree/lib" -maxdepth 1 -name 'ld-linux*.so.*' 2>/dev/null | head -n 1)
    [[ $loader ]] || stop "no dynamic loader in $tree"
    library_path=$(find "$tree/usr/lib" -maxdepth 1 -type d -name '*-linux-gnu' | head -n 1)
    cat >"$directory/bin/$1" <<LAUNCHER
#!/bin/sh
exec '$loader' --library-path '$library_path' '$tree/usr/bin/$2' "\$@"
LAUNCHER
    chmod +x "$directory/bin/$1"
    "$directory/bin/$1" --version
}

[[ -x $tree/usr/bin/redis-server && -x $tree/usr/bin/valkey-server ]] || install_tree
mkdir -p "$directory/bin"
write_launcher redis8-server redis-server
write_launcher valkey9-server valkey-server
