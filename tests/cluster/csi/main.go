// Btrfscsi is the test cluster's CSI driver: one process a node, volumes that
// live on that node only.
//
// A volume is a sparse file with a btrfs of its own, mounted by loop, so df
// shows its size and a full volume is a real ENOSPC. A snapshot is a reflink
// copy of the file, made in one step: as consistent as after a power failure.
// The files are the only state. It is a test fixture, not for production.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const driverName = "btrfs.csi.sampledb.dev"

// driver answers all of CSI's services for one node.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer

	node  string
	store store
}

func main() {
	node := flag.String("node", "", "the node's name")
	root := flag.String("root", "", "a directory on a file system with reflinks")
	kubelet := flag.String("kubelet", "/var/lib/kubelet", "kubelet's root directory")
	flag.Parse()
	if *node == "" || *root == "" {
		log.Fatal("-node and -root are needed")
	}

	d := &driver{node: *node, store: store{root: *root}}
	if err := d.store.prepare(); err != nil {
		log.Fatal(err)
	}
	socket := filepath.Join(*kubelet, "plugins", driverName, "csi.sock")

	plugin := grpc.NewServer(grpc.ChainUnaryInterceptor(logged, oneAtATime(), checked))
	csi.RegisterIdentityServer(plugin, d)
	csi.RegisterControllerServer(plugin, d)
	csi.RegisterNodeServer(plugin, d)
	go serve(plugin, socket)

	announce := grpc.NewServer()
	registration.RegisterRegistrationServer(announce, registrar{socket: socket})
	serve(announce, filepath.Join(*kubelet, "plugins_registry", driverName+"-reg.sock"))
}

func serve(server *grpc.Server, socket string) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		log.Fatal(err)
	}
	os.Remove(socket) // left by a killed process
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.Serve(listener))
}

func logged(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	start := time.Now()
	resp, err := next(ctx, req)
	if method := filepath.Base(info.FullMethod); err != nil || !frequent[method] {
		log.Printf("%s {%v} %s error=%v", method, req, time.Since(start).Round(time.Millisecond), err)
	}
	return resp, err
}

// Called again and again by kubelet and the side-cars: logged only when they fail.
var frequent = map[string]bool{
	"Probe": true, "GetPluginInfo": true, "GetPluginCapabilities": true, "GetCapacity": true, "ListSnapshots": true,
	"ControllerGetCapabilities": true, "NodeGetCapabilities": true, "NodeGetVolumeStats": true,
}

// oneAtATime makes every call see the files and mounts as the last one left them.
func oneAtATime() grpc.UnaryServerInterceptor {
	var mu sync.Mutex
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		return next(ctx, req)
	}
}
