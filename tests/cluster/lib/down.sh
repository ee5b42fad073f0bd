# shellcheck shell=bash
# The end: all that `up` started or made goes, in the order that lets it go. Also
# what an `up` that died half-way left. The build cache stays.

cluster_down() {
  stop_all
  stop_sidecar_mounts
  remove_shim_sockets
  network_down
  remove_cgroups
  restore_sysctls
  remove_new_paths
  rm -rf --one-file-system "$STATE" "$RUN"
}

# Everything mounted below our folders, the last mounted first; then loop devices.
stop_sidecar_mounts() {
  local mount device
  while read -r mount; do
    umount "$mount" 2>/dev/null || umount -l "$mount" 2>/dev/null || true
  done < <(awk -v a="$STATE/" -v b="$RUN/" 'index($5, a) == 1 || index($5, b) == 1 { print $5 }' /proc/self/mountinfo | tac)
  while read -r device; do
    losetup -d "$device" 2>/dev/null || true
  done < <(losetup --list --noheadings --output NAME,BACK-FILE | awk -v a="$STATE/" -v b="$RUN/" 'index($2, a) == 1 || index($2, b) == 1 { print $1 }')
}

# containerd's shims listen below /run/containerd whatever the configuration
# says; their addresses are kept in their bundles.
remove_shim_sockets() {
  local address
  while read -r address; do
    rm -f "$address"
  done < <(find "$RUN" -path '*/k8s.io/*/bootstrap.json' -exec jq -r '.address // empty' {} + 2>/dev/null | sed -n 's|^unix://||p')
}

# Folders with a fixed place that some piece makes. What was there before stays.
FIXED_PATHS="/run/containerd /var/run/nri /var/lib/cni /var/lib/kubelet /var/log/containers /var/log/pods
  /etc/cni /opt/cni /opt/containerd /opt/nri /usr/libexec/kubernetes /run/runc"

remember_paths() {
  local path
  for path in $FIXED_PATHS; do [[ -e $path ]] || echo "$path"; done >"$STATE/new-paths"
}

remove_new_paths() {
  local path
  [[ -f $STATE/new-paths ]] || return 0
  while read -r path; do rm -rf "$path"; done <"$STATE/new-paths"
}

# kubelet sets these for the whole machine.
KUBELET_SYSCTLS="vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops
  kernel.keys.root_maxkeys kernel.keys.root_maxbytes"

remember_sysctls() {
  local name
  for name in $KUBELET_SYSCTLS; do
    sysctl "$name" 2>/dev/null || true
  done >"$STATE/sysctls"
}

restore_sysctls() {
  [[ -f $STATE/sysctls ]] || return 0
  sysctl -q -p "$STATE/sysctls" >/dev/null 2>&1 || true
}
