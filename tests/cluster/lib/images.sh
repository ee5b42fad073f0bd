# shellcheck shell=bash
# Container images: built by buildah from the project's Dockerfiles, on Debian
# bases made with mmdebstrap; then put into each node's containerd.

export BUILDAH_ISOLATION=chroot

build_images() {
  local all=false binaries=$ROOT/target/image entry major suite
  while (($#)); do
    case $1 in
      --all-majors) all=true ;;
      --binaries) binaries=$(realpath "${2:?--binaries needs a folder}") && shift ;;
      *) die "images: what is '$1'?" ;;
    esac
    shift
  done
  pause_image
  for entry in $POSTGRES_MAJORS; do
    major=${entry%%=*} suite=${entry#*=}
    if [[ $all == true || $major == "$POSTGRES_DEFAULT_MAJOR" ]]; then
      base_image "$suite"
      dockerfile_image "localhost/sampledb/postgres:$major" "$ROOT/images/postgres" "$ROOT/images/postgres/Dockerfile" \
        --build-arg PG_MAJOR="$major" --build-arg BASE="debian:$suite-slim"
    fi
  done
  if compgen -G "$binaries/sampledb-*" >/dev/null; then
    base_image "$CONTROLLERS_SUITE"
    dockerfile_image localhost/sampledb/controllers:dev "$binaries" "$ROOT/images/controllers/Dockerfile"
  else
    step "no controllers image: there are no binaries in $binaries"
  fi
}

# dockerfile_image NAME CONTEXT DOCKERFILE ARGUMENTS...: unless it was made of the same things.
dockerfile_image() {
  local name=$1 context=$2 dockerfile=$3 inputs old
  shift 3
  inputs=$({
    printf '%s\n' "$@"
    sha256sum <"$dockerfile"
    (cd "$context" && find . -type f ! -name Dockerfile -exec sha256sum {} + | sort)
    [[ -z $(base_of "$dockerfile" "$@") ]] || image_id "$(base_of "$dockerfile" "$@")"
  } | sha256sum | cut -c1-24)
  if [[ $(image_label "$name" sampledb.dev/inputs) == "$inputs" ]]; then
    step "$name is current"
    return
  fi
  step "building $name"
  old=$(image_id "$name") || true
  buildah build --quiet --pull-never --layers=false --format oci --label "sampledb.dev/inputs=$inputs" \
    "$@" --file "$dockerfile" --tag "$name" "$context" >/dev/null || die "$name could not be built"
  [[ -z $old ]] || buildah rmi "$old" >/dev/null 2>&1 || true # it has no name now
  step "built $name ($(image_size "$name"))"
}

# The Debian base that a build starts from: the argument BASE, or the first FROM.
base_of() { # DOCKERFILE ARGUMENTS...
  local argument
  for argument in "${@:2}"; do
    [[ $argument != BASE=* ]] || { echo "${argument#BASE=}" && return; }
  done
  awk '$1 == "FROM" && $2 != "scratch" { print $2; exit }' "$1"
}

image_id() { buildah inspect --type image --format '{{.FromImageID}}' "$1" 2>/dev/null; }
image_label() { buildah inspect --type image --format "{{index .OCIv1.Config.Labels \"$2\"}}" "$1" 2>/dev/null || true; }
image_size() { buildah images --format '{{.Size}}' "$1" 2>/dev/null | head -n1; }

# base_image SUITE: debian:SUITE-slim, from the Debian mirror that this machine uses.
base_image() {
  local suite=$1 name=debian:$1-slim work container
  [[ -n $(image_id "$name") ]] && return 0
  step "making the base image $name"
  work=$(mktemp -d)
  debian_sources "$suite" >"$work/sources.list"
  # The same proxy and checks as this machine's apt, also for apt inside the image.
  apt-config dump Acquire | grep -E '^Acquire::(http|https|Check|Retries)' >"$work/apt.conf" || true
  mmdebstrap --quiet --variant=minbase --aptopt="$work/apt.conf" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$suite" "$work/base.tar" - <"$work/sources.list" || die "mmdebstrap could not make $suite"
  container=$(buildah from scratch)
  buildah add --quiet "$container" "$work/base.tar" / >/dev/null
  buildah config --cmd bash --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
  buildah commit --quiet --rm "$container" "$name" >/dev/null
  rm -rf "$work"
  step "made $name"
}

# This machine's own Debian mirrors, for another suite.
debian_sources() { # SUITE
  local suite=$1 here archive security keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  here=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  archive=${SAMPLEDB_DEBIAN_MIRROR:-$(apt_uri "$here")}
  security=${SAMPLEDB_DEBIAN_SECURITY_MIRROR:-$(apt_uri "$here-security")}
  [[ -n $archive ]] || die "no Debian mirror in this machine's apt sources: set SAMPLEDB_DEBIAN_MIRROR"
  echo "deb [signed-by=$keyring] $archive $suite main"
  echo "deb [signed-by=$keyring] $archive $suite-updates main"
  [[ -z $security ]] || echo "deb [signed-by=$keyring] $security $suite-security main"
}

apt_uri() { # RELEASE
  # shellcheck disable=SC2016 # apt's own placeholders
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(ORIGIN)' 'Identifier: Packages' |
    awk -v release="$1" '$2 == release && $3 == "Debian" { print $1; exit }'
}

# The pause image: our few lines of C, static, kept as an archive in the cache.
pause_image() {
  local source=$ROOT/images/pause archive=$CACHE/images/pause.tar work
  [[ $archive -nt $source/pause.c && $archive -nt $source/Dockerfile ]] && return 0
  step "building $PAUSE_IMAGE"
  work=$(mktemp -d)
  mkdir -p "$CACHE/images"
  gcc -static -Os -s -Wall -Wextra -o "$work/pause" "$source/pause.c"
  buildah build --quiet --pull-never --file "$source/Dockerfile" --tag "$PAUSE_IMAGE" "$work" >/dev/null
  save_image "$PAUSE_IMAGE" "$work/pause.tar"
  mv "$work/pause.tar" "$archive"
  rm -rf "$work"
}

save_image() { # NAME FILE
  rm -f "$2"
  buildah push --quiet --disable-compression "$1" "docker-archive:$2:$1" >/dev/null
}

load_archive() { # NODE NAME FILE
  local output
  output=$(node_ctr "$1" images import "$3" 2>&1) || die "$2 could not be loaded into $1: $output"
}

# load_images NAME...: into every node that does not have this very image.
load_images() {
  local name id node work job
  local -a jobs
  (($#)) || die "load: which image?"
  [[ -f $STATE/nodes ]] || die "the cluster is down"
  for name in "$@"; do
    id=$(image_id "$name") || die "there is no image $name: run '$0 images'"
    work='' jobs=()
    for node in $(cluster_nodes); do
      has_image "$node" "$name" "$id" && continue
      if [[ -z $work ]]; then
        work=$(mktemp -d)
        save_image "$name" "$work/image.tar"
      fi
      load_image "$node" "$name" "$id" "$work/image.tar" &
      jobs+=($!)
    done
    for job in "${jobs[@]}"; do wait "$job" || die "$name could not be loaded"; done
    [[ -z $work ]] || rm -rf "$work"
    step "$name is in every node"
  done
}

load_image() { # NODE NAME ID FILE
  load_archive "$1" "$2" "$4"
  mkdir -p "$(node_state "$1")/images"
  echo "$3" >"$(loaded_stamp "$1" "$2")"
}

has_image() { # NODE NAME ID
  [[ $(cat "$(loaded_stamp "$1" "$2")" 2>/dev/null) == "$3" && -n $(node_ctr "$1" images list --quiet "name==$2" 2>/dev/null) ]]
}

loaded_stamp() { echo "$(node_state "$1")/images/${2//\//_}"; }
