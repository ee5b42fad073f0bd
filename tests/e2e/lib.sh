# Shared by the scripts beside it: where things are, progress, and which cluster.
# shellcheck shell=bash disable=SC2034,SC2317
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root" || exit 1
cluster=tests/cluster/cluster
logs=target/logs
mkdir -p "$logs"
began=$SECONDS

# say TEXT: one step of the way, with the time since the start.
say() { printf '\e[1m[%4ds] %s\e[0m\n' $((SECONDS - began)) "$*"; }

# A person's own cluster is used when KUBECONFIG names one; ours otherwise.
if [[ -n ${KUBECONFIG:-} && ${KUBECONFIG} != /var/lib/sampledb-cluster/* ]]; then own_cluster=; else own_cluster=1; fi

# quietly NAME COMMAND…: runs it with its output in a log; shows the end of the log when it fails.
quietly() {
    local name=$1; shift
    if ! "$@" >"$logs/$name.log" 2>&1; then
        tail -n 60 "$logs/$name.log"
        echo "failed: $* (the whole of it: $logs/$name.log)" >&2
        return 1
    fi
}

# Installs what this machine lacks, and helm.
set_up() {
    "$cluster" setup
    "$cluster" build helm
    PATH=$("$cluster" env | sed -nE 's/^export PATH=(.*):"\$PATH"$/\1/p'):$PATH
}

# Licences, sources and unwanted crates. Debian has no cargo-deny: it is built once, beside the cluster's programs.
# Advisories need a database from the network: `cargo deny check advisories` asks it.
cargo_deny() {
    local version=0.20.2
    local place=${XDG_CACHE_HOME:-$HOME/.cache}/sampledb/cargo-deny-$version
    [[ -x $place/bin/cargo-deny ]] || cargo install --locked --root "$place" "cargo-deny@$version"
    "$place/bin/cargo-deny" --locked check bans licenses sources
}

# Starts building the cluster's programs, which takes longest on a new machine, beside everything else.
start_cluster_build() {
    [[ -n $own_cluster ]] || return 0
    say "building the cluster's programs in the background (20 minutes the first time, then nothing): $logs/cluster-build.log"
    nice -n 5 "$cluster" build >"$logs/cluster-build.log" 2>&1 &
    cluster_build=$!
}

# Waits for that build and starts the cluster.
start_cluster() {
    [[ -n $own_cluster ]] || { say "using the cluster of KUBECONFIG=$KUBECONFIG"; return 0; }
    if ! wait "$cluster_build"; then
        tail -n 60 "$logs/cluster-build.log"
        echo "the cluster's programs do not build: $logs/cluster-build.log" >&2
        return 1
    fi
    say "starting the cluster"
    "$cluster" up --nodes "${SAMPLEDB_NODES:-1}"
    eval "$("$cluster" env)"
}
