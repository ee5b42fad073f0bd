# shellcheck shell=bash disable=SC2034
# Where everything lives, and the addresses of the cluster. Read by every other part.

CACHE=${SAMPLEDB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sampledb}
STATE=/var/lib/sampledb-cluster
RUN=/run/sampledb-cluster
LOG=$STATE/log
PKI=$STATE/pki
KUBECONFIG_FILE=$STATE/admin.kubeconfig
DISK_SIZE=${SAMPLEDB_CLUSTER_DISK:-24G} # sparse, one a node

# The network: one bridge in the root namespace, one namespace for the control
# plane and one a node. Nothing in them has a default route.
BRIDGE=sdb0
BRIDGE_IP=10.100.0.1
CP_NS=sdb-cp
CP_IP=10.100.0.10
CLUSTER_NET=10.100.0.0/24
POD_NET=10.244.0.0/16
SERVICE_NET=10.96.0.0/16
API_SERVICE_IP=10.96.0.1
DNS_SERVICE_IP=10.96.0.10
API_URL=https://$CP_IP:6443

CSI_DRIVER=btrfs.csi.sampledb.dev
PAUSE_IMAGE=localhost/sampledb/pause:1

node_ns() { echo "sdb-$1"; }                    # node1 -> sdb-node1
node_ip() { echo "10.100.0.$((10 + ${1#node}))"; } # node1 -> 10.100.0.11
node_pods() { echo "10.244.${1#node}.0/24"; }
node_state() { echo "$STATE/$1"; }
node_run() { echo "$RUN/$1"; }

# The nodes of the running (or starting) cluster.
cluster_nodes() {
  local i count
  count=$(cat "$STATE/nodes" 2>/dev/null || echo 0)
  for ((i = 1; i <= count; i++)); do echo "node$i"; done
}
