# How the scripts speak: progress on standard error, and a failure in one line that says what to do. And their umask.

# Every script's, whatever the administrator's: others than root have to reach what sshd reads. Secrets have modes of their own.
umask 022

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

# quietly WHAT REMEDY COMMAND...: runs it with its output kept, and says so now and then; on failure prints the lines that matter,
# and one line of ours. Ctrl-C ends the script when the command has ended: apt finishes what it is at, and reports success.
quietly() {
  local what=$1 remedy=$2 log ticker status=0
  shift 2
  log=$(mktemp)
  trap 'say "interrupted during $what"; exit 130' INT
  report_waiting "$what" &
  ticker=$!
  disown # or bash would say that it was ended
  "$@" >"$log" 2>&1 </dev/null || status=$?
  kill "$ticker" 2>/dev/null || true # Ctrl-C has ended it
  trap - INT
  if ((status)); then
    # apt and npm mark what went wrong; npm says it first, and how to use npm last.
    { grep -E '^(E:|npm (error|ERR!)) ' "$log" || tail -n 5 "$log"; } | head -n 5 >&2
    die "$what failed: $remedy (all of its output: $log)"
  fi
  rm -f "$log"
}

# report_waiting WHAT: a line now and then while the script lives. A pipe that stays empty is its clock: no `sleep` outlives it.
waiting_line_every=20
report_waiting() {
  local began=$SECONDS
  while ! read -rt "$waiting_line_every" -u 3 && kill -0 $$; do say "waiting for $1, $((SECONDS - began)) s so far"; done 3<> <(:)
}
