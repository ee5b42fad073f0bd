# shellcheck shell=bash
# Processes. All that we start is put into one cgroup, so that whatever came of
# it is found again, also after this script died; the files in $RUN/pid name
# the single ones, so that a test can kill a kubelet.

# Each cgroup hierarchy's mount point: one on cgroup v2, several on v1.
cgroup_version() { if [[ $(stat -fc %T /sys/fs/cgroup) == cgroup2fs ]]; then echo 2; else echo 1; fi; }

cgroup_hierarchies() {
  if [[ $(cgroup_version) == 2 ]]; then
    echo /sys/fs/cgroup
  else
    awk '$3 == "cgroup" { print $2 }' /proc/mounts
  fi
}

# The hierarchy whose membership says that a process is ours. Containers are in all of them.
tracking_hierarchy() {
  if [[ -d /sys/fs/cgroup/pids && $(cgroup_version) == 1 ]]; then
    echo /sys/fs/cgroup/pids
  else
    cgroup_hierarchies | head -n1
  fi
}

CGROUP=sampledb-cluster # below it: system, and one a node

make_cgroups() {
  local hierarchy child
  if [[ $(cgroup_version) == 2 ]]; then
    mkdir -p "/sys/fs/cgroup/$CGROUP/system"
    for child in /sys/fs/cgroup "/sys/fs/cgroup/$CGROUP"; do
      enable_controllers "$child"
    done
  fi
  while read -r hierarchy; do
    for child in "$CGROUP" "$CGROUP/system" $(cluster_nodes | sed "s|^|$CGROUP/|"); do
      mkdir -p "$hierarchy/$child"
      if [[ $(cgroup_version) == 2 ]]; then
        [[ $child == "$CGROUP/system" ]] || enable_controllers "$hierarchy/$child"
      elif [[ -f $hierarchy/cpuset.cpus ]]; then # empty in a new cpuset: nothing could run in it
        cat "$hierarchy/cpuset.cpus" >"$hierarchy/$child/cpuset.cpus"
        cat "$hierarchy/cpuset.mems" >"$hierarchy/$child/cpuset.mems"
      fi
    done
  done < <(cgroup_hierarchies)
}

enable_controllers() { # cgroup v2: children may use what this group has
  local controller
  while read -r controller; do
    echo "+$controller" >"$1/cgroup.subtree_control" 2>/dev/null || true
  done < <(tr ' ' '\n' <"$1/cgroup.controllers")
}

our_processes() {
  local group
  group=$(tracking_hierarchy)/$CGROUP
  [[ -d $group ]] || return 0
  find "$group" -name cgroup.procs -exec cat {} + 2>/dev/null || true
}

remove_cgroups() {
  local hierarchy
  # Also the empty version-2 tree that runc uses beside version 1.
  while read -r hierarchy; do
    [[ -d $hierarchy/$CGROUP ]] || continue
    find "$hierarchy/$CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null || true
  done < <(awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/mounts)
}

# start NAME NAMESPACE COMMAND...: in the background, in its network namespace,
# its own process group; output to $LOG/NAME.log, its pid to $RUN/pid/NAME.
start() {
  local name=$1 ns=$2
  shift 2
  # shellcheck disable=SC2016 # for the inner shell
  setsid nsenter --net="/run/netns/$ns" bash -c \
    'echo $$ >"$0/cgroup.procs" && exec "$@"' \
    "$(tracking_hierarchy)/$CGROUP/system" "$@" \
    </dev/null >>"$LOG/$name.log" 2>&1 9>&- &
  echo $! >"$RUN/pid/$name"
}

# supervise: the same, started again a second after it ended.
supervise() {
  local name=$1 ns=$2
  shift 2
  # shellcheck disable=SC2016 # for the inner shell
  start "$name" "$ns" bash -c \
    'while :; do "$@"; echo "--- ended with $?, starting again"; sleep 1; done' "$name" "$@"
}

# stop NAME: a single one, with its children.
stop() {
  local pid
  pid=$(cat "$RUN/pid/$1" 2>/dev/null) || return 0
  kill -- "-$pid" 2>/dev/null || true
  rm -f "$RUN/pid/$1"
}

is_running() { # NAME; one that has ended but that nobody has waited for does not run
  local pid
  pid=$(cat "$RUN/pid/$1" 2>/dev/null) || return 1
  [[ -d /proc/$pid && $(awk '/^State:/ { print $2 }' "/proc/$pid/status" 2>/dev/null) != Z ]]
}

# The data is thrown away, so the end may be quick: two seconds, then by force.
stop_all() {
  local signal end
  local -a pids
  for signal in TERM KILL KILL; do
    mapfile -t pids < <(our_processes)
    ((${#pids[@]})) || return 0
    kill "-$signal" "${pids[@]}" 2>/dev/null || true
    end=$((SECONDS + 2))
    while [[ -n $(our_processes) ]] && ((SECONDS < end)); do sleep 0.1; done
  done
  [[ -z $(our_processes) ]] || die "processes that do not end: $(our_processes | tr '\n' ' ')"
}
