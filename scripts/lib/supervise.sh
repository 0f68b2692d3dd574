# Runs sshd with its log and `berth serve` side by side until SIGINT or SIGTERM. Each is started again when it ends, without touching the
# other: sshd serves logins and uploads while serve is away. Uses say.sh and ports.sh; needs $project, $node and the settings.

# supervise [--watch]: starts both and returns. With --watch, serve starts again when its sources change.
supervise() {
  mkdir -p "$BERTH_RUNTIME_DIR"
  raise_backlog
  local log=$BERTH_RUNTIME_DIR/sshd-log/socket
  rm -f "$BERTH_RUNTIME_DIR"/{sshd-log,sshd,check,serve}.pid "$log"
  trap 'end_all; exit 0' INT TERM
  trap end_all EXIT
  keep sshd-log "$project/scripts/lib/sshd-log"
  for _ in {1..100}; do
    [[ ! -S $log ]] || break
    pause 0.1
  done
  keep sshd sh "$project/openssh/in-namespace" --log "$log" "$BERTH_STATE_DIR/sshd" \
    /usr/sbin/sshd -D -f "$BERTH_STATE_DIR/sshd/sshd_config"
  # A 201 says that the login works, so sshd listens first, or has had ten seconds.
  for _ in {1..100}; do
    [[ -z $(listening_inode "$BERTH_SFTP_PORT") ]] || break
    pause 0.1
  done
  # Uploads are checked by a program: berth.service has berth-check.socket for that.
  [[ ${BERTH_CHECK:-} != exec:* ]] || keep check "$project/scripts/lib/check" --listen "$BERTH_RUNTIME_DIR/check"
  keep_serve
  [[ ${1:-} != --watch ]] || restart_on_change
}

# keep_serve: its keeper holds the transfer log's sockets, so that they outlive each serve. The second log-sockets makes others for
# a serve that finds the jails' disk changed.
keep_serve() {
  keeper_by=("$project/scripts/lib/log-sockets")
  keep serve "$project/scripts/lib/log-sockets" "$project/scripts/lib/run" "$node" serve
  keeper_by=()
}

# restart_on_change: ends serve whenever one of its sources has changed; its keeper starts it again.
restart_on_change() {
  "$node" "$project/scripts/lib/on-change.mjs" "$project/src" "$BERTH_RUNTIME_DIR/serve.pid" &
  watcher=$!
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

keepers=() keeper_by=() serve_keeper='' watcher=''

# In sessions of their own: a Ctrl-C reaches this script only, which ends them in order.
keep() {
  setsid setpriv --pdeathsig TERM "${keeper_by[@]}" bash "$project/scripts/lib/keep" "$1" "$BERTH_RUNTIME_DIR/$1.pid" "${@:2}" &
  keepers+=($!)
  [[ $1 != serve ]] || serve_keeper=$!
}

end_all() {
  trap '' INT TERM # once is enough
  trap - EXIT
  say 'stopping; uploads that are under way stay unfinished'
  [[ -z $watcher ]] || kill "$watcher" 2>/dev/null || true
  # serve hears how the sessions end, so it goes after sshd; the log has the last lines of both.
  local keeper
  for keeper in "${keepers[@]:1}" "${keepers[0]}"; do
    [[ $keeper != "$serve_keeper" ]] || "$project/scripts/lib/end-sessions"
    kill -TERM "$keeper" 2>/dev/null || true
    wait "$keeper" 2>/dev/null || true
  done
}

# wait_until_healthy SECONDS: fails when serve does not say 200 by then, or ends before. One that only lacks a certificate has
# said so in its log, and does everything else.
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
