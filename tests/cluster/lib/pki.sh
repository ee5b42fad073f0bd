# shellcheck shell=bash
# Certificates and kubeconfigs, new at every start: one authority, one leaf a component.

pki_create() {
  local node
  mkdir -p "$PKI"
  chmod 700 "$PKI"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
    -keyout "$PKI/ca.key" -out "$PKI/ca.crt" -subj /CN=sampledb-test-cluster \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out "$PKI/sa.key" 2>/dev/null
  openssl pkey -in "$PKI/sa.key" -pubout -out "$PKI/sa.pub"

  leaf apiserver /CN=kube-apiserver serverAuth \
    "IP:$CP_IP,IP:$API_SERVICE_IP,IP:127.0.0.1,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
  leaf kubelet-client /O=system:masters/CN=apiserver-kubelet-client clientAuth
  leaf front-proxy /CN=front-proxy clientAuth
  identity admin /O=system:masters/CN=admin
  identity controller-manager /CN=system:kube-controller-manager
  identity scheduler /CN=system:kube-scheduler
  identity proxy /CN=system:kube-proxy
  identity coredns /O=system:masters/CN=coredns
  identity csi /O=system:masters/CN=csi
  for node in $(cluster_nodes); do
    identity "$node" "/O=system:nodes/CN=system:node:$node" clientAuth,serverAuth "IP:$(node_ip "$node"),DNS:$node"
  done

  cp "$PKI/admin.kubeconfig" "$KUBECONFIG_FILE"
  chmod 600 "$KUBECONFIG_FILE"
  # Called through sudo, the person who called may use it.
  [[ -z ${SUDO_UID:-} ]] || chown "$SUDO_UID:${SUDO_GID:-0}" "$KUBECONFIG_FILE"
}

leaf() { # NAME SUBJECT USAGE [NAMES]
  local name=$1 subject=$2 usage=$3 names=${4:-}
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
    -keyout "$PKI/$name.key" -out "$PKI/$name.csr" -subj "$subject" 2>/dev/null
  openssl x509 -req -in "$PKI/$name.csr" -CA "$PKI/ca.crt" -CAkey "$PKI/ca.key" -days 3650 \
    -CAcreateserial -out "$PKI/$name.crt" -extfile <(
      echo keyUsage=critical,digitalSignature,keyEncipherment
      echo "extendedKeyUsage=$usage"
      [[ -z $names ]] || echo "subjectAltName=$names"
    ) 2>/dev/null
}

identity() { # NAME SUBJECT [USAGE [NAMES]]: a leaf and a kubeconfig with it inside
  local name=$1
  leaf "$name" "$2" "${3:-clientAuth}" "${4:-}"
  cat >"$PKI/$name.kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters:
  - name: sampledb
    cluster:
      server: $API_URL
      certificate-authority-data: $(base64 -w0 "$PKI/ca.crt")
users:
  - name: $name
    user:
      client-certificate-data: $(base64 -w0 "$PKI/$name.crt")
      client-key-data: $(base64 -w0 "$PKI/$name.key")
contexts:
  - name: sampledb
    context: {cluster: sampledb, user: $name}
current-context: sampledb
YAML
}
