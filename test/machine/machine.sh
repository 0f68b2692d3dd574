# Debians of their own that boot: systemd as PID 1 in systemd-nspawn, on this machine's network. For scripts to source; uses
# ports.sh.
#
#   make_machine FOLDER SUITE     its base system, kept as a tar in /var/cache/berth-machine
#   boot_machine FOLDER [OPTION…] returns once it is up; with more options of systemd-nspawn, started by the command ${boot_by[@]}
#   inside FOLDER COMMAND...      runs a command in it
#   reboot_machine FOLDER
#   end_machine FOLDER            switches it off
#   end_machines                  all of them
#
# Root, debootstrap and systemd-container are needed; `can_boot` says why it is impossible here, if it is.

declare -A machine_pid=() nspawn_pid=()
boot_by=()

# can_boot: fails with a line on standard output where systemd-nspawn cannot work.
can_boot() {
  ((EUID == 0)) || { echo 'it needs root' && return 1; }
  command -v apt-get >/dev/null || { echo 'this is no Debian' && return 1; }
  unshare --mount --pid --fork true 2>/dev/null || { echo 'this environment may not make namespaces' && return 1; }
  [[ -w /sys/fs/cgroup ]] || { echo 'control groups are read-only here' && return 1; }
}

# free_ports COUNT: the first of COUNT ports in a row on which nothing listens, below those that the kernel gives out. Found by
# chance, so that another run that begins now hardly takes the same.
free_ports() {
  local first port
  while :; do
    first=$((20000 + RANDOM % 12000))
    for ((port = first; port < first + $1; port++)); do
      [[ -z $(listening_inode "$port") ]] || continue 2
    done
    echo "$first"
    return
  done
}

make_machine() {
  local folder=$1 suite=$2 cache=/var/cache/berth-machine
  mkdir -p "$cache" "$folder"
  (
    flock 9
    [[ -f $cache/$suite.tar ]] || make_base "$cache" "$suite"
  ) 9>"$cache/lock"
  tar -C "$folder" -xf "$cache/$suite.tar"
  chmod 755 "$folder"
  : >"$folder/etc/machine-id"
  as_here "$folder"
}

make_base() {
  local cache=$1 suite=$2 mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | awk '/\/debian\/*$/ && !found++')
  rm -rf "$cache/$suite.new"
  debootstrap --variant=minbase --include=ca-certificates,systemd,systemd-sysv,dbus "$suite" "$cache/$suite.new" "$mirror" \
    >"$cache/$suite.log" 2>&1 || { tail -n 5 "$cache/$suite.log" >&2 && return 1; }
  tar -C "$cache/$suite.new" -cf "$cache/$suite.tar.new" .
  mv "$cache/$suite.tar.new" "$cache/$suite.tar"
  rm -rf "$cache/$suite.new"
}

# as_here FOLDER: names, certificate authorities and the way to package registries are this machine's.
as_here() {
  local folder=$1 file
  cp /etc/resolv.conf "$folder/etc/resolv.conf"
  cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/ca-certificates.crt"
  mkdir -p "$folder/usr/local/share/ca-certificates"
  cp /usr/local/share/ca-certificates/*.crt "$folder/usr/local/share/ca-certificates/" 2>/dev/null || true
  for file in /etc/npmrc /usr/etc/npmrc; do [[ ! -f $file ]] || cp "$file" "$folder/etc/npmrc"; done
  for file in /etc/apt/apt.conf.d/*; do
    if grep -qiE 'proxy|verify|registry|Acquire::http' "$file"; then cp "$file" "$folder/etc/apt/apt.conf.d/"; fi
  done
}

boot_machine() {
  local folder=$1 until=$((SECONDS + 300))
  "${boot_by[@]}" systemd-nspawn --quiet --directory "$folder" --boot --register=no --keep-unit --console=read-only "${@:2}" \
    </dev/null >"$folder.console" 2>&1 &
  nspawn_pid[$folder]=$!
  while ((SECONDS < until)); do
    sleep 0.5
    machine_pid[$folder]=$(pgrep --parent "${nspawn_pid[$folder]}" | head -n 1 || true)
    [[ ${machine_pid[$folder]} && $(inside "$folder" systemctl is-system-running 2>/dev/null) =~ running|degraded ]] && return
    kill -0 "${nspawn_pid[$folder]}" 2>/dev/null || break
  done
  echo "the machine did not boot; its console ends so:" >&2
  tail -n 20 "$folder.console" >&2
  return 1
}

inside() {
  nsenter --all --target "${machine_pid[$1]}" env -i HOME=/root LANG=C.UTF-8 TERM=dumb \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt npm_config_cafile=/etc/ssl/certs/ca-certificates.crt "${@:2}"
}

# reboot_machine FOLDER: with --keep-unit, systemd-nspawn ends with 133 when its machine wants to boot again.
reboot_machine() {
  inside "$1" systemctl --no-block reboot
  local status=0
  machine_ends "$1"
  wait "${nspawn_pid[$1]}" || status=$?
  ((status == 133)) || { echo "the machine ended with $status instead of a reboot" >&2 && return 1; }
  boot_machine "$1"
}

end_machine() {
  kill "${nspawn_pid[$1]}" 2>/dev/null || true
  machine_ends "$1"
  wait "${nspawn_pid[$1]}" 2>/dev/null || true
  unset "nspawn_pid[$1]"
}

end_machines() {
  local folder
  for folder in "${!nspawn_pid[@]}"; do end_machine "$folder"; done
}

# machine_ends FOLDER: returns once it has, on its own or after two minutes by force.
machine_ends() {
  local until=$((SECONDS + 120))
  while kill -0 "${nspawn_pid[$1]}" 2>/dev/null; do
    ((SECONDS < until)) || kill -KILL ${nspawn_pid[$1]} ${machine_pid[$1]} 2>/dev/null || true
    sleep 0.1
  done
}
