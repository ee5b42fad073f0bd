# shellcheck shell=bash
# Names: CoreDNS as a process beside the API server, reached as the Service kube-dns.

dns_start() {
  cat >"$STATE/Corefile" <<CORE
.:53 {
    bind $CP_IP
    errors
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig $PKI/coredns.kubeconfig sampledb
        pods insecure
        ttl 5
    }
    # There is no outside: whatever else is asked does not exist.
    template ANY ANY . {
        rcode NXDOMAIN
    }
}
CORE
  supervise coredns "$CP_NS" "$COREDNS/bin/coredns" -conf "$STATE/Corefile"
}

dns_ready() {
  nsenter --net="/run/netns/$CP_NS" curl -fsS --noproxy '*' -m 2 http://127.0.0.1:8181/ready
}
