# Runs sshd, its log and `berth serve` side by side until SIGINT or SIGTERM. Each is restarted when it ends, without touching the
# others: sshd serves logins and uploads while serve is away. Uses say.sh and ports.sh; needs $project, $node and the settings.

# supervise [--watch]: starts all of them and returns. With --watch, serve restarts when its sources change.
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
  # A 201 promises that the login works, so sshd listens first, or has had ten seconds.
  for _ in {1..100}; do
    [[ -z $(listening_inode "$BERTH_SFTP_PORT") ]] || break
    pause 0.1
  done
  # Runs the program that checks uploads; berth.service has berth-check.socket instead.
  [[ ${BERTH_CHECK:-} != exec:* ]] || keep check "$project/scripts/lib/check" --listen "$BERTH_RUNTIME_DIR/check"
  keep_serve
  [[ ${1:-} != --watch ]] || restart_on_change
}

# keep_serve: starts serve with a keeper that holds the transfer log's sockets, so that they outlive each serve. The inner log-sockets
# makes new ones for a serve that finds the jails on another disk.
keep_serve() {
  keeper_by=("$project/scripts/lib/log-sockets")
  keep serve "$project/scripts/lib/log-sockets" "$project/scripts/lib/run" "$node" serve
  keeper_by=()
}

# restart_on_change: ends serve whenever one of its sources changes; its keeper starts it again.
restart_on_change() {
  "$node" "$project/scripts/lib/on-change.mjs" "$project/src" "$BERTH_RUNTIME_DIR/serve.pid" &
  watcher=$!
}

# need_no_other: dies while another `berth serve` holds the state folder (proc_locks(5)): its sshd reads the files that would be written.
need_no_other() {
  local inode pid
  inode=$(stat -c %i "$BERTH_STATE_DIR/serve.lock" 2>/dev/null) || return 0
  pid=$(awk -v inode="$inode" '$4 == "WRITE" && $5 > 0 && $6 ~ ":" inode "$" { print $5; exit }' /proc/locks)
  [[ -z $pid ]] || die "berth runs on $BERTH_STATE_DIR already (PID $pid): stop that, or choose another folder: BERTH_STATE_DIR=FOLDER $0"
}

# raise_backlog: messages of sshd wait in the kernel while serve is stuck or slow, up to this many; beyond them, sessions block. This
# setting of the network namespace is only ever raised.
raise_backlog() {
  local wanted=65535 setting=/proc/sys/net/core/somaxconn
  (($(<"$setting") >= wanted)) || { echo "$wanted" >"$setting"; } 2>/dev/null ||
    say "cannot set net.core.somaxconn to $wanted: sessions block sooner when serve is stuck"
}

keepers=() keeper_by=() serve_keeper='' watcher=''

# keep NAME COMMAND...: starts COMMAND with a keeper in a session of its own, so that Ctrl-C reaches this script only, which ends the
# keepers in order.
keep() {
  setsid setpriv --pdeathsig TERM "${keeper_by[@]}" bash "$project/scripts/lib/keep" "$1" "$BERTH_RUNTIME_DIR/$1.pid" "${@:2}" &
  keepers+=($!)
  [[ $1 != serve ]] || serve_keeper=$!
}

end_all() {
  trap '' INT TERM # once is enough
  trap - EXIT
  say 'stopping; uploads in progress stay unfinished'
  [[ -z $watcher ]] || kill "$watcher" 2>/dev/null || true
  # serve reads how the sessions end, so it ends after sshd. The log ends last, so it has the last lines of both.
  local keeper
  for keeper in "${keepers[@]:1}" "${keepers[0]}"; do
    [[ $keeper != "$serve_keeper" ]] || "$project/scripts/lib/end-sessions"
    kill -TERM "$keeper" 2>/dev/null || true
    wait "$keeper" 2>/dev/null || true
  done
}

# wait_until_healthy SECONDS: fails when serve does not answer 200 by then, or ends before. A serve that only lacks a certificate
# counts as healthy: it has logged that, and does everything else.
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

# watch [EVERY [LIMIT]]: runs forever; both are in seconds. Kills a serve that gives no answer of any kind for some 15 s: it holds up
# the transfer log, and its keeper starts it again. A serve that has not answered yet may be working on its database, so it gets sixty
# times as long.
watch() {
  local every=${1:-3} limit=${2:-9} pid before='' answered=${healthy_pid:-} silent_since=$SECONDS allowed
  while pause "$every"; do
    pid=$(cat "$BERTH_RUNTIME_DIR/serve.pid" 2>/dev/null || true)
    if [[ -n $(health_status) ]]; then
      answered=$pid silent_since=''
    elif [[ -z $silent_since || $pid != "$before" ]]; then
      silent_since=$SECONDS
    fi
    before=$pid
    allowed=$((limit * ($([[ $pid == "$answered" ]] && echo 1 || echo 60))))
    if [[ -n $pid && -n $silent_since ]] && ((SECONDS - silent_since >= allowed)); then
      say 'serve does not answer: killing it, so that it is started again'
      kill -KILL "$pid" 2>/dev/null || true
    fi
  done
}

# pause SECONDS: a sleep that a signal interrupts.
pause() {
  sleep "$1" &
  wait $!
}

# health_status: prints the status of GET /healthz, `no-certificate` when the API waits for one, or nothing without an answer within
# 3 s. It uses the socket that only root can open, which connections to the API's port cannot fill up.
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
