# shellcheck shell=bash
# Storage: one btrfs in a sparse file a node, our CSI driver on it, and the
# CSI side-cars as processes on the host, in the control plane's namespace.
# The side-cars end when the driver does, hence supervised.

storage_mount() { # NODE
  local dir
  dir=$(node_state "$1")/btrfs
  mkdir -p "$dir"
  truncate -s "$DISK_SIZE" "$dir.img"
  mkfs.btrfs -q -m single "$dir.img" >/dev/null
  mount -o loop,noatime "$dir.img" "$dir"
}

storage_start() { # NODE
  local node=$1 state ns socket sidecar
  state=$(node_state "$node") ns=$(node_ns "$node")
  socket=$state/kubelet/plugins/$CSI_DRIVER/csi.sock
  sidecar=(--kubeconfig="$PKI/csi.kubeconfig" --csi-address="$socket" --node-deployment)
  supervise "csi-driver-$node" "$ns" "$CSI/bin/btrfscsi" -node "$node" -root "$state/btrfs" -kubelet "$state/kubelet"
  supervise "csi-provisioner-$node" "$ns" \
    env NODE_NAME="$node" NAMESPACE=kube-system POD_NAME=none \
    "$PROVISIONER/bin/csi-provisioner" "${sidecar[@]}" \
    --node-deployment-immediate-binding=false --strict-topology --immediate-topology=false \
    --feature-gates=Topology=true --extra-create-metadata \
    --enable-capacity --capacity-ownerref-level=-1 --capacity-poll-interval=10s
  supervise "csi-snapshotter-$node" "$ns" \
    env NODE_NAME="$node" "$SNAPSHOTTER/bin/csi-snapshotter" "${sidecar[@]}"
  # The driver offers expansion on the node only, so one resizer, beside any driver, serves all.
  [[ $node != node1 ]] || supervise csi-resizer "$ns" \
    "$RESIZER/bin/csi-resizer" --kubeconfig="$PKI/csi.kubeconfig" --csi-address="$socket"
}

snapshot_controller_start() {
  supervise snapshot-controller "$CP_NS" "$SNAPSHOTTER/bin/snapshot-controller" \
    --kubeconfig="$PKI/csi.kubeconfig" --enable-distributed-snapshotting=true --resync-period=30s
}

storage_define() {
  local file
  local -a crds=()
  for file in "$SNAPSHOTTER"/crds/*.yaml; do crds+=(-f "$file"); done
  kc apply --server-side "${crds[@]}" >/dev/null
  kc wait --for=condition=Established --timeout=30s "${crds[@]}" >/dev/null
  kc apply --server-side -f "$HERE/manifests/storage.yaml" >/dev/null
}

storage_ready() {
  local node
  for node in $(cluster_nodes); do
    kc get csinode "$node" -o 'jsonpath={.spec.drivers[*].name}' | grep -qw "$CSI_DRIVER" || return 1
  done
}

# csi-sanity against a driver of its own, on a file system of its own.
csi_sanity() {
  local dir status=0 pid
  dir=$(mktemp -d)
  mkdir "$dir/disk"
  truncate -s 8G "$dir/disk.img"
  mkfs.btrfs -q -m single "$dir/disk.img" >/dev/null
  mount -o loop,noatime "$dir/disk.img" "$dir/disk"
  "$CSI/bin/btrfscsi" -node sanity -root "$dir/disk" -kubelet "$dir/kubelet" >"$dir/driver.log" 2>&1 &
  pid=$!
  # Skipped: a snapshot that is nowhere is the same to us as one on another node,
  # for which ResourceExhausted is the answer that makes the scheduler look there.
  "$SANITY/bin/csi-sanity" --ginkgo.skip 'volume source snapshot is not found' \
    --csi.endpoint="$dir/kubelet/plugins/$CSI_DRIVER/csi.sock" \
    --csi.testvolumesize=$((256 << 20)) --csi.testvolumeexpandsize=$((512 << 20)) \
    --csi.mountdir="$dir/mount" --csi.stagingdir="$dir/staging" --ginkgo.no-color || status=$?
  kill "$pid"
  wait "$pid" 2>/dev/null || true
  umount -R "$dir/disk"
  rm -rf "$dir"
  return "$status"
}
