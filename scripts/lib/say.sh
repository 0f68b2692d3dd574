# How the scripts speak: progress on standard error, and a failure in one line that says what to do.

say() { printf 'berth: %s\n' "$*" >&2; }

die() {
  printf 'berth: %s\n' "$*" >&2
  exit 1
}

# help_if_asked ARGUMENT...: for --help, prints the comment at the head of the script, and ends it.
help_if_asked() {
  [[ ${1:-} == --help || ${1:-} == -h ]] || return 0
  sed -n '2,/^[^#]/ s/^# \{0,1\}//p' "$0"
  exit
}

# wrong_use ARGUMENT...
wrong_use() {
  printf 'berth: cannot make sense of `%s`: see scripts/%s --help\n' "$*" "$(basename "$0")" >&2
  exit 2
}

# need_root WHAT: WHAT is how to start it again.
need_root() { ((EUID == 0)) || die "needs root, since it makes users for sshd: sudo $1"; }

# quietly WHAT REMEDY COMMAND...: runs it with its output kept; on failure prints the lines that matter, and one line of ours.
quietly() {
  local what=$1 remedy=$2 log
  shift 2
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1 </dev/null; then
    # apt and npm mark what went wrong; npm says it first, and how to use npm last.
    { grep -E '^(E:|npm (error|ERR!)) ' "$log" || tail -n 5 "$log"; } | head -n 5 >&2
    die "$what failed: $remedy (all of its output: $log)"
  fi
  rm -f "$log"
}
