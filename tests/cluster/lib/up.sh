# shellcheck shell=bash
# From nothing to a cluster that answers.

cluster_up() { # NODES
  local nodes=$1 node
  if is_up "$nodes"; then
    step "already up, with $nodes node(s)"
    return
  fi
  if [[ -e $STATE || -e $RUN || -n $(our_processes) ]]; then
    step "cleaning up what an earlier run left"
    cluster_down
  fi
  check_machine
  check_routes

  mkdir -p "$STATE" "$LOG" "$RUN/pid"
  echo "$nodes" >"$STATE/nodes"
  remember_paths
  remember_sysctls
  make_cgroups
  network_up
  step "network"
  pki_create
  step "certificates"
  controlplane_start_api
  for node in $(cluster_nodes); do
    storage_mount "$node"
    node_start_containerd "$node"
  done
  pause_image
  for node in $(cluster_nodes); do
    wait_for 60 "containerd on $node" node_ctr "$node" version || die "containerd does not answer: $LOG/containerd-$node.log"
    load_archive "$node" "$PAUSE_IMAGE" "$CACHE/images/pause.tar"
  done
  wait_for 120 "API server" api_ready || die "the API server does not answer: $LOG/apiserver.log"
  controlplane_start_controllers
  for node in $(cluster_nodes); do
    node_start_kubelet "$node"
    storage_start "$node"
    start_proxy "$node" "$(node_ns "$node")" "$node"
  done
  dns_start
  kc apply --server-side -f "$HERE/manifests/dns.yaml" >/dev/null
  storage_define
  snapshot_controller_start
  wait_for 120 "nodes ready" all_nodes_ready || die "a node does not get ready: $LOG/kubelet-node1.log"
  start_proxy control-plane "$CP_NS" node1
  wait_for 60 "DNS" dns_ready || die "CoreDNS is not ready: $LOG/coredns.log"
  wait_for 60 "storage" storage_ready || die "the CSI driver is not registered: $LOG/csi-driver-node1.log"
  wait_for 60 "default ServiceAccount" kc get serviceaccount default -n default ||
    die "no ServiceAccount in the default namespace: $LOG/controller-manager.log"
  echo "$nodes $PIECES" >"$STATE/complete"
  step "up: export KUBECONFIG=$KUBECONFIG_FILE"
}

# The addresses are fixed: say so when this machine already uses them.
check_routes() {
  local net clash
  for net in "$CLUSTER_NET" "$POD_NET" "$SERVICE_NET"; do
    clash=$(ip route show root "$net")
    [[ -z $clash ]] || die "this machine already has a route into $net: $clash"
  done
}
