# shellcheck shell=bash
# The network: a bridge in the root namespace, and a namespace for the control
# plane and for each node, joined to it by a veth. No default route anywhere, so
# nothing in the cluster reaches outside; the root namespace gets routes to the
# pods and (through the control plane's kube-proxy) to the Services.

network_up() {
  local node other
  ip link add "$BRIDGE" type bridge
  ip addr add "$BRIDGE_IP/24" dev "$BRIDGE"
  ip link set "$BRIDGE" up
  # If a better route is missing, refuse: cluster addresses never leave the machine.
  ip route add unreachable "$POD_NET" metric 9999
  ip route add unreachable "$SERVICE_NET" metric 9999
  ip route add "$SERVICE_NET" via "$CP_IP"

  add_namespace "$CP_NS" "$CP_IP"
  for node in $(cluster_nodes); do
    add_namespace "$(node_ns "$node")" "$(node_ip "$node")"
    ip route add "$(node_pods "$node")" via "$(node_ip "$node")"
    ip -n "$CP_NS" route add "$(node_pods "$node")" via "$(node_ip "$node")"
  done
  for node in $(cluster_nodes); do
    # kube-proxy rewrites the destination, but first there must be some route.
    ip -n "$(node_ns "$node")" route add "$SERVICE_NET" dev eth0
    for other in $(cluster_nodes); do
      [[ $node == "$other" ]] ||
        ip -n "$(node_ns "$node")" route add "$(node_pods "$other")" via "$(node_ip "$other")"
    done
  done
  ip -n "$CP_NS" route add "$SERVICE_NET" dev eth0
}

add_namespace() { # NAME ADDRESS
  local ns=$1 address=$2
  ip netns add "$ns"
  ip link add "v-$ns" type veth peer name eth0 netns "$ns"
  ip link set "v-$ns" master "$BRIDGE" up
  ip -n "$ns" link set lo up
  ip -n "$ns" addr add "$address/24" dev eth0
  ip -n "$ns" link set eth0 up
  nsenter --net="/run/netns/$ns" sysctl -qw net.ipv4.ip_forward=1 \
    net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth0.rp_filter=0
}

network_down() {
  local ns
  for ns in $(ip netns list | awk '/^sdb-/ { print $1 }'); do ip netns del "$ns"; done
  ip route del unreachable "$SERVICE_NET" metric 9999 2>/dev/null || true
  ip route del unreachable "$POD_NET" metric 9999 2>/dev/null || true
  ip link del "$BRIDGE" 2>/dev/null || true # with it, its routes
}
