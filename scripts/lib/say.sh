# The scripts' messages: progress on standard error, and a failure in one line that says what to do. Also their umask.

# For every script, whatever the administrator's umask: users other than root must read some of sshd's files. Secrets have explicit
# modes.
umask 022

say() { printf 'berth: %s\n' "$*" >&2; }

die() {
  printf 'berth: %s\n' "$*" >&2
  exit 1
}

# help_if_asked ARGUMENT...: for --help, prints the comment at the head of the script, and exits.
help_if_asked() {
  [[ ${1:-} == --help || ${1:-} == -h ]] || return 0
  sed -n '2,/^[^#]/ s/^# \{0,1\}//p' "$0"
  exit
}

# wrong_use ARGUMENT...
wrong_use() {
  printf 'berth: does not understand `%s`: see scripts/%s --help\n' "$*" "$(basename "$0")" >&2
  exit 2
}

# name_test_files FILE...: sets $files to their whole paths. Ends the script if one is missing or is no test.
name_test_files() {
  local file
  files=()
  for file in "$@"; do
    [[ $file != -* ]] || wrong_use "$file"
    [[ -f $file ]] || die "there is no file $file: name test files by their paths from here, such as test/api/create.test.ts"
    [[ $file == *.test.ts ]] || die "$file is not a test: their names end with .test.ts"
    files+=("$(realpath "$file")")
  done
}

# need_root COMMAND: dies unless run by root; the message repeats COMMAND.
need_root() { ((EUID == 0)) || die "needs root, since it makes users for sshd: sudo $1"; }

# quietly WHAT REMEDY COMMAND...: runs COMMAND without showing its output, and reports now and then that it runs. On failure, prints
# the lines that matter and one line of ours. Ctrl-C ends the script only after the command: apt finishes first, and reports success.
quietly() {
  local what=$1 remedy=$2 log ticker status=0
  shift 2
  log=$(mktemp)
  trap 'say "interrupted during $what"; exit 130' INT
  report_waiting "$what" &
  ticker=$!
  disown # keeps bash from reporting its end
  "$@" >"$log" 2>&1 </dev/null || status=$?
  kill "$ticker" 2>/dev/null || true # Ctrl-C may have ended it
  trap - INT
  if ((status)); then
    # apt, pip and npm mark their errors. npm prints the error first, and its usage last.
    { grep -E '^(E:|ERROR:|npm (error|ERR!)) ' "$log" || tail -n 5 "$log"; } | head -n 5 >&2
    die "$what failed: $remedy (all of its output: $log)"
  fi
  rm -f "$log"
}

# report_waiting WHAT: prints a line now and then while the script lives. It reads an empty pipe with a timeout, so that no `sleep`
# outlives it.
waiting_line_every=20
report_waiting() {
  local began=$SECONDS
  while ! read -rt "$waiting_line_every" -u 3 && kill -0 $$; do say "waiting for $1, $((SECONDS - began)) s so far"; done 3<> <(:)
}
