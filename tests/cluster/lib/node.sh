# shellcheck shell=bash
# A node: containerd, kubelet and kube-proxy in the node's namespace, with their
# own directories and their own cgroup.

node_start_containerd() { # NODE
  local node=$1 state run
  state=$(node_state "$node") run=$(node_run "$node")
  mkdir -p "$state"/{containerd,kubelet,cni,opt} "$run"
  cat >"$state/containerd.toml" <<TOML
version = 3
root = "$state/containerd"
state = "$run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
  address = "$run/containerd.sock"
[ttrpc]
  address = "$run/containerd.sock.ttrpc"
[plugins.'io.containerd.internal.v1.opt']
  path = "$state/opt"
[plugins.'io.containerd.snapshotter.v1.overlayfs']
  # Else the end of each container waits until this machine's whole disk is written.
  mount_options = ["volatile"]
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "$PAUSE_IMAGE"
[plugins.'io.containerd.cri.v1.runtime']
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true
  netns_mounts_under_state_dir = true
  # Without CAP_SYS_RESOURCE a lower score than our own cannot be given.
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "$state/cni"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      Root = "$run/runc"
      SystemdCgroup = false
TOML
  # Point to point links and routes, no bridge: br_netfilter is not needed.
  cat >"$state/cni/10-ptp.conflist" <<JSON
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{
  "type": "ptp", "mtu": 1500, "ipMasq": false,
  "ipam": {
    "type": "host-local", "dataDir": "$state/ipam",
    "ranges": [[{"subnet": "$(node_pods "$node")"}]],
    "routes": [{"dst": "0.0.0.0/0"}]
  }
}]}
JSON
  start "containerd-$node" "$(node_ns "$node")" \
    env PATH="$CONTAINERD/bin:$PATH" "$CONTAINERD/bin/containerd" -c "$state/containerd.toml"
}

node_ctr() { # NODE ARGUMENTS...
  local node=$1
  shift
  "$CONTAINERD/bin/ctr" --address "$(node_run "$node")/containerd.sock" --namespace k8s.io "$@"
}

node_start_kubelet() { # NODE
  local node=$1 state
  state=$(node_state "$node")
  echo "nameserver $DNS_SERVICE_IP" >"$state/resolv.conf"
  cat >"$state/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP/$node
enforceNodeAllocatable: []
authentication: {anonymous: {enabled: false}, x509: {clientCAFile: $PKI/ca.crt}, webhook: {enabled: true}}
authorization: {mode: Webhook}
tlsCertFile: $PKI/$node.crt
tlsPrivateKeyFile: $PKI/$node.key
clusterDNS: [$DNS_SERVICE_IP]
clusterDomain: cluster.local
resolvConf: $state/resolv.conf
containerRuntimeEndpoint: unix://$(node_run "$node")/containerd.sock
volumePluginDir: $state/volume-plugins
podLogsDir: $state/pod-logs
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
serializeImagePulls: false
# Fast tests: a grown volume, a changed ConfigMap and a lost node are seen within seconds.
syncFrequency: 2s
configMapAndSecretChangeDetectionStrategy: Watch
nodeStatusUpdateFrequency: 4s
nodeLeaseDurationSeconds: 20
YAML
  start "kubelet-$node" "$(node_ns "$node")" "$KUBERNETES/bin/kubelet" --config="$state/kubelet.yaml" \
    --kubeconfig="$PKI/$node.kubeconfig" --root-dir="$state/kubelet" \
    --hostname-override="$node" --node-ip="$(node_ip "$node")"
}

all_nodes_ready() {
  local node
  for node in $(cluster_nodes); do
    [[ $(kc get node "$node" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}') == True ]] || return 1
  done
}
