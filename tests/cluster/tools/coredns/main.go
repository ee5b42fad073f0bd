// Coredns is CoreDNS with the plugins that the test cluster's Corefile names and
// no others: the stock build brings every cloud's client library along.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func init() {
	// The order in which a query passes them.
	dnsserver.Directives = []string{"bind", "ready", "errors", "kubernetes", "template"}
}

func main() { coremain.Run() }
