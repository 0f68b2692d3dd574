# The trials of `test/machine/run --long`: what takes long and hardly ever breaks. For `run` to source, with its functions.

# The berth that upgrades and restores begin with.
OLDER=56d55a69b3

# older_sources FOLDER
older_sources() {
  mkdir -p "$1/root/berth-old"
  git -c safe.directory='*' -C "$project" archive "$OLDER" | tar -C "$1/root/berth-old" -xf -
}

# boot_behind_proxy FOLDER: on a network of its own, where nothing but an HTTP proxy of ours leads outside.
boot_behind_proxy() {
  local folder=$1 link
  boot_machine "$folder" --network-veth
  link=$(ip -o link | sed -n 's/^[0-9]*: \(ve-[^@:]*\).*/\1/p' | tail -n 1)
  ip address add 10.231.0.1/30 dev "$link"
  ip link set "$link" up
  local net=(nsenter --net --target "${machine_pid[$folder]}")
  "${net[@]}" sh -c 'for file in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 >"$file"; done'
  "${net[@]}" ip address add 10.231.0.2/30 dev host0
  "${net[@]}" ip link set lo up
  "${net[@]}" ip link set host0 up
  proxy_port=$(free_ports 1)
  . "$project/scripts/lib/node.sh"
  need_node
  setsid "$node" "$here/long/http-proxy.mjs" 10.231.0.1 "$proxy_port" &
  proxy_pid=$!
}

# boot_small FOLDER BYTES: with that much memory for all of the machine, by either version of control groups, and one core.
boot_small() {
  local group=/sys/fs/cgroup/berth-small limit=memory.max
  [[ ! -d /sys/fs/cgroup/memory ]] || group=/sys/fs/cgroup/memory/berth-small limit=memory.limit_in_bytes
  mkdir -p $group
  echo "$2" >$group/$limit
  boot_by=(bash -c "echo \$\$ >$group/cgroup.procs; exec taskset -c 0 \"\$@\"" bash)
  boot_machine "$1"
  boot_by=()
}

long_trials() {
  say 'machine: behind an HTTP proxy, without IPv6; then balancers in front of it'
  new_machine "$first" "$port"
  boot_behind_proxy "$first"
  step "$first" long/behind-proxy "http://10.231.0.1:$proxy_port"
  step "$first" long/balancers
  end_machine "$first"
  kill "$proxy_pid"

  say 'machine: 256 MiB and one core'
  new_machine "$second" "$port"
  boot_machine "$second"
  step "$second" 1-install
  step "$second" 2-use
  end_machine "$second"
  boot_small "$second" $((256 * 1024 * 1024))
  step "$second" long/small-machine
  # What is in force, and how often something waited for it.
  cat /sys/fs/cgroup/{memory/berth-small/memory.{limit_in_bytes,max_usage_in_bytes,failcnt,oom_control},berth-small/memory.{max,peak,events}} 2>/dev/null
  end_machine "$second"

  say 'machine: the image, and a backup, of an older berth'
  new_machine "$third" "$port"
  older_sources "$third"
  boot_machine "$third"
  step "$third" long/older-backup
  inside "$third" sh -c 'scripts=/root/berth/scripts; $scripts/uninstall --purge; echo one >/root/kept/one.csv; ssh-keygen -q -t ed25519 -N "" -f /root/kept/id'
  make_machine "$third/root/base" "$(sed -n 's/^FROM node:[0-9]*-\([a-z]*\)-slim$/\1/p' "$project/Dockerfile")"
  step "$third" 9-container
  step "$third" 9a-examples rootless
  step "$third" long/image-upgrade
  step "$third" 9a-examples packages
  end_machine "$third"
  boot_machine "$third" --network-veth
  step "$third" 9a-examples published
  end_machine "$third"

  say 'machine: unattended-upgrades'
  rm -rf --one-file-system "$second"
  new_machine "$second" "$port"
  boot_machine "$second"
  step "$second" long/unattended-upgrade
}
