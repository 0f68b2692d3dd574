# Runs sshd and `berth serve` side by side until SIGINT or SIGTERM. Each is started again when it ends, without touching the
# other: sshd serves logins and uploads while serve is away. Uses say.sh and ports.sh; needs $project, $node and the settings.

# supervise [--watch]: begins; returns once both are told to run. With --watch, serve starts again when its sources change.
supervise() {
  local serve=("$project/scripts/lib/run" "$node" serve)
  if [[ ${1:-} == --watch ]]; then
    mkdir -p "$project/node_modules/.cache" # tsx's own folder: see tsx.mjs
    serve=(env TMPDIR="$project/node_modules/.cache" "$node" "$project/node_modules/tsx/dist/cli.mjs"
      watch --clear-screen=false "$project/src/main.ts" serve)
  fi
  mkdir -p "$BERTH_RUNTIME_DIR"
  raise_backlog
  rm -f "$BERTH_RUNTIME_DIR"/{sshd,serve}.pid
  trap 'end_all; exit 0' INT TERM
  trap end_all EXIT
  keep sshd sh "$project/openssh/in-namespace" "$BERTH_STATE_DIR/sshd" \
    /usr/sbin/sshd -D -e -f "$BERTH_STATE_DIR/sshd/sshd_config"
  # A 201 says that the login works, so sshd listens first, or has had ten seconds.
  for _ in {1..100}; do
    [[ -z $(listening_inode "$BERTH_SFTP_PORT") ]] || break
    pause 0.1
  done
  keep serve "${serve[@]}"
}

# need_no_other: refuses while another `berth serve` holds the state folder (proc_locks(5)), whose sshd reads what would be written.
need_no_other() {
  local inode pid
  inode=$(stat -c %i "$BERTH_STATE_DIR/serve.lock" 2>/dev/null) || return 0
  pid=$(awk -v inode="$inode" '$4 == "WRITE" && $5 > 0 && $6 ~ ":" inode "$" { print $5; exit }' /proc/locks)
  [[ -z $pid ]] || die "berth runs on $BERTH_STATE_DIR already (PID $pid): stop that, or choose another folder: BERTH_STATE_DIR=FOLDER $0"
}

# What sshd says while serve is stuck or slow waits in the kernel, up to this many messages; beyond them, sessions wait. It is a
# setting of the network namespace, and is only ever raised.
raise_backlog() {
  local wanted=65535 setting=/proc/sys/net/core/somaxconn
  (($(<"$setting") >= wanted)) || { echo "$wanted" >"$setting"; } 2>/dev/null ||
    say "cannot set net.core.somaxconn to $wanted: sessions wait earlier when serve is stuck"
}

keepers=()

# In sessions of their own: a Ctrl-C reaches this script only, which ends them in order.
keep() {
  setsid setpriv --pdeathsig TERM bash "$project/scripts/lib/keep" "$1" "$BERTH_RUNTIME_DIR/$1.pid" "${@:2}" &
  keepers+=($!)
}

end_all() {
  trap '' INT TERM # once is enough
  trap - EXIT
  say 'stopping; uploads that are under way stay unfinished'
  kill -TERM "${keepers[@]}" 2>/dev/null || true
  wait "${keepers[@]}" 2>/dev/null || true
}

# wait_until_healthy SECONDS: fails when serve does not say 200 by then, or ends before. One that only lacks a certificate has
# said so in its log, and does all the rest.
wait_until_healthy() {
  local until=$((SECONDS + $1)) first='' now
  while ((SECONDS < until)); do
    now=$(cat "$BERTH_RUNTIME_DIR/serve.pid" 2>/dev/null || true)
    case $(health_status) in 200 | no-certificate) healthy_pid=$now && return 0 ;; esac
    [[ ${first:=$now} == "$now" ]] || return 1
    pause 0.1
  done
  return 1
}

# watch [EVERY [PATIENCE]]: for ever, in seconds. A serve that gives no answer of any kind for some 15 s hangs and holds up the
# transfer log: it is killed, and started again by its keeper. One that has not answered yet may be at work on its database: it
# is given sixty times as long.
watch() {
  local every=${1:-3} patience=${2:-9} pid before='' answered=${healthy_pid:-} silent_since=$SECONDS allowed
  while pause "$every"; do
    pid=$(cat "$BERTH_RUNTIME_DIR/serve.pid" 2>/dev/null || true)
    if [[ -n $(health_status) ]]; then
      answered=$pid silent_since=''
    elif [[ -z $silent_since || $pid != "$before" ]]; then
      silent_since=$SECONDS
    fi
    before=$pid
    allowed=$((patience * ($([[ $pid == "$answered" ]] && echo 1 || echo 60))))
    if [[ -n $pid && -n $silent_since ]] && ((SECONDS - silent_since >= allowed)); then
      say 'serve does not answer: ending it, so that a new one takes its place'
      kill -KILL "$pid" 2>/dev/null || true
    fi
  done
}

# A sleep that a signal interrupts.
pause() {
  sleep "$1" &
  wait $!
}

# health_status: the status of GET /healthz, `no-certificate` when the API waits for one, or nothing when there is no answer
# within 3 s. Asked on the socket that root alone can open: connections to the API's port cannot fill it.
health_status() {
  local request=$'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
  timeout 3 perl -MIO::Socket::UNIX -e '
    my $socket = IO::Socket::UNIX->new(Peer => $ARGV[0]) or exit 1;
    print $socket $ARGV[1];
    $socket->flush;
    print while <$socket>;
  ' "$BERTH_RUNTIME_DIR/operator.sock" "$request" 2>&1 </dev/null |
    awk '/^HTTP\/1.1 / { status = $2 } /No certificate/ { status = "no-certificate" } END { if (status != "") print status }' || true
}
