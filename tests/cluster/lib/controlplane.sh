# shellcheck shell=bash
# The control plane: etcd, API server, controller-manager, scheduler and a
# kube-proxy, all in the control plane's namespace.

kc() { "$KUBERNETES/bin/kubectl" --kubeconfig "$KUBECONFIG_FILE" "$@"; }

api_ready() { kc get --raw /readyz --request-timeout=2s >/dev/null 2>&1; }

controlplane_start_api() {
  mkdir -p "$STATE/etcd"
  # The data is thrown away at the end, so it need not survive a power failure.
  start etcd "$CP_NS" "$KUBERNETES/bin/etcd" --data-dir "$STATE/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380

  cat >"$STATE/audit-policy.yaml" <<'YAML'
# Who wrote what: the tests count our own writes in it.
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    verbs: [create, update, patch, delete, deletecollection]
  - level: None
YAML
  start apiserver "$CP_NS" "$KUBERNETES/bin/kube-apiserver" \
    --etcd-servers=http://127.0.0.1:2379 \
    --advertise-address="$CP_IP" --bind-address=0.0.0.0 --secure-port=6443 \
    --tls-cert-file="$PKI/apiserver.crt" --tls-private-key-file="$PKI/apiserver.key" \
    --client-ca-file="$PKI/ca.crt" \
    --kubelet-client-certificate="$PKI/kubelet-client.crt" --kubelet-client-key="$PKI/kubelet-client.key" \
    --kubelet-certificate-authority="$PKI/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --service-account-key-file="$PKI/sa.pub" --service-account-signing-key-file="$PKI/sa.key" \
    --service-account-issuer=https://kubernetes.default.svc \
    --service-cluster-ip-range="$SERVICE_NET" --authorization-mode=Node,RBAC \
    --enable-admission-plugins=NodeRestriction --allow-privileged=true --profiling=false \
    --enable-aggregator-routing=true \
    --proxy-client-cert-file="$PKI/front-proxy.crt" --proxy-client-key-file="$PKI/front-proxy.key" \
    --requestheader-client-ca-file="$PKI/ca.crt" --requestheader-allowed-names=front-proxy \
    --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
    --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --audit-policy-file="$STATE/audit-policy.yaml" --audit-log-path="$LOG/audit.log" --audit-log-maxsize=512
}

controlplane_start_controllers() {
  start controller-manager "$CP_NS" "$KUBERNETES/bin/kube-controller-manager" \
    --kubeconfig="$PKI/controller-manager.kubeconfig" \
    --authentication-kubeconfig="$PKI/controller-manager.kubeconfig" \
    --authorization-kubeconfig="$PKI/controller-manager.kubeconfig" \
    --service-account-private-key-file="$PKI/sa.key" --root-ca-file="$PKI/ca.crt" \
    --cluster-signing-cert-file="$PKI/ca.crt" --cluster-signing-key-file="$PKI/ca.key" \
    --use-service-account-credentials=true --allocate-node-cidrs=false --leader-elect=false \
    --bind-address=127.0.0.1 --node-monitor-grace-period=20s --node-monitor-period=2s
  start scheduler "$CP_NS" "$KUBERNETES/bin/kube-scheduler" \
    --kubeconfig="$PKI/scheduler.kubeconfig" --authentication-kubeconfig="$PKI/scheduler.kubeconfig" \
    --authorization-kubeconfig="$PKI/scheduler.kubeconfig" --leader-elect=false --bind-address=127.0.0.1
}

# kube-proxy for a namespace. The control plane is no node; its proxy answers
# as node1, which only matters for Services with local traffic policies.
start_proxy() { # NAME NAMESPACE HOSTNAME
  local config=$STATE/proxy-$1.yaml
  cat >"$config" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: $PKI/proxy.kubeconfig}
hostnameOverride: $3
# What comes from outside the pods is masqueraded, so that answers find back.
detectLocalMode: ClusterCIDR
clusterCIDR: $POD_NET
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
conntrack: {maxPerCore: 0}
nftables: {minSyncPeriod: 1s}
YAML
  start "proxy-$1" "$2" "$KUBERNETES/bin/kube-proxy" --config="$config"
}
