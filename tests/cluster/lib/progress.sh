# shellcheck shell=bash
# What a person sees: each step with the seconds since the start, and clear ends.

STARTED_AT=$EPOCHREALTIME

elapsed() { awk -v a="$STARTED_AT" -v b="$EPOCHREALTIME" 'BEGIN { printf "%5.1f", b - a }'; }
step() { printf '[%ss] %s\n' "$(elapsed)" "$*" >&2; }
die() {
  printf '[%ss] error: %s\n' "$(elapsed)" "$*" >&2
  exit 1
}

# wait_for SECONDS WHAT COMMAND...: until the command succeeds.
wait_for() {
  local seconds=$1 what=$2 end
  shift 2
  end=$((SECONDS + seconds))
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
  step "$what"
}
