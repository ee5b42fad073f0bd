# shellcheck shell=bash
# What runs, and whether it is well.

is_up() { # NODES: up, well, of this shape and made of these pieces
  [[ -f $STATE/complete ]] && [[ $(cat "$STATE/complete") == "$1 $PIECES" ]] && all_processes_run && api_ready && all_nodes_ready
}

all_processes_run() {
  local file
  for file in "$RUN"/pid/*; do
    [[ -e $file ]] && is_running "${file##*/}" || return 1
  done
}

cluster_status() {
  local file name word
  if [[ ! -d $STATE ]]; then
    echo "down"
    return 1
  fi
  for file in "$RUN"/pid/*; do
    name=${file##*/}
    if is_running "$name"; then word=running; else word=ENDED; fi
    printf '%-28s %-8s pid %s\n' "$name" "$word" "$(cat "$file")"
  done
  echo
  api_ready || {
    echo "the API server does not answer; see $LOG/apiserver.log"
    return 1
  }
  kc get nodes -o wide
  echo
  kc get pods -A
  echo
  if [[ -f $STATE/complete ]] && all_processes_run && all_nodes_ready; then echo "up"; else
    echo "up, but not well"
    return 1
  fi
}
