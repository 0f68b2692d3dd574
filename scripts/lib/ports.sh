# Finds the process that listens on a TCP port, from /proc/net (proc_net_tcp(5)), so that no further package is needed. Uses say.sh.

# need_free_port PORT VARIABLE WHAT
need_free_port() {
  local inode
  [[ $1 =~ ^[0-9]+$ ]] || return 0 # `berth prepare` reports an invalid port
  inode=$(listening_inode "$1")
  [[ -z $inode ]] || die "port $1 for the $3 is taken by $(holder_of "$inode"): stop that, or choose another: $2=PORT $0"
}

# listening_inode PORT: prints the inode of the socket that listens there (state 0A), if any.
listening_inode() {
  awk -v port="$(printf ':%04X' "$1")" '$4 == "0A" && substr($2, length($2) - 4) == port { print $10; exit }' \
    /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

holder_of() {
  local fd pid
  fd=$(find /proc/[0-9]*/fd -lname "socket:\[$1\]" -print -quit 2>/dev/null)
  [[ -n $fd ]] || { echo 'another process' && return; }
  pid=${fd#/proc/}
  pid=${pid%%/*}
  echo "\`$(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c 1-80 | sed 's/ *$//')\` (PID $pid)"
}
