# Installs missing Debian packages, and notes which ones berth installed. Uses say.sh.

# The names of the packages that the scripts have installed, one per line, for scripts/uninstall --packages.
brought=/var/lib/misc/berth-packages

package_lists_are_new=''

# need_packages PACKAGE...
need_packages() {
  local package missing=()
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || die "this is not Debian: install these yourself: ${missing[*]}"
  say "Debian packages are missing: ${missing[*]}"
  [[ $package_lists_are_new ]] || apt_quietly 'apt-get update' 'check the network and /etc/apt/sources.list' update
  package_lists_are_new=1
  say "installing $(would_install "${missing[@]}" | wc -l) packages, with their dependencies (scripts/uninstall --packages removes them)"
  case " ${missing[*]} " in
    *' openssh-server '*) with_debian_sshd_off install_packages "${missing[@]}" ;;
    *) install_packages "${missing[@]}" ;;
  esac
}

# would_install PACKAGE...: prints the names of the packages that apt would install.
would_install() { apt-get -s --no-install-recommends install "$@" 2>/dev/null | sed -n 's/^Inst \([^ ]*\).*/\1/p'; }

install_packages() {
  would_install "$@" >>"$brought"
  apt_quietly 'apt-get install' "try it yourself: apt-get install $*" -y --no-install-recommends install "$@"
}

# need_chromium: the one without a window needs a third of the other's processor time; the other does as well where only that is there.
need_chromium() {
  (need_packages chromium-headless-shell) || need_packages chromium
}

# need_promtool: takes that one program out of Debian's package prometheus, whose installation would start a server.
need_promtool() {
  local folder=/var/cache/berth-promtool
  if command -v promtool >/dev/null || [[ -x $folder/promtool ]]; then return; fi
  say "getting promtool from Debian's package prometheus (19 MB)"
  rm -rf "$folder"
  mkdir -p "$folder"
  (cd "$folder" && apt_quietly 'apt-get download' 'check the network and /etc/apt/sources.list' download prometheus)
  dpkg-deb --fsys-tarfile "$folder"/prometheus_*.deb | tar -x -C "$folder" --strip-components=3 ./usr/bin/promtool
  rm "$folder"/prometheus_*.deb
}

# The locks of apt and dpkg (apt-get(8), dpkg(1)).
apt_locks=(/var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock /var/cache/apt/archives/lock)
# A new machine upgrades itself in its first minutes.
apt_patience=600

# apt_quietly WHAT REMEDY ARGUMENT...: runs apt-get, once nothing else on this machine uses apt or dpkg. apt itself would wait only for
# dpkg's locks, and not say for whom.
apt_quietly() {
  local what=$1 remedy=$2
  shift 2
  await_apt "$what"
  DEBIAN_FRONTEND=noninteractive quietly "$what" "$remedy" \
    in_turn apt-get -q -o "DPkg::Lock::Timeout=$apt_patience" "$@"
}

# in_turn COMMAND...: waits for another script of berth to finish with apt. Locks a folder that every Debian has; the other locks are
# on files in it.
in_turn() { flock --close /var/lib/dpkg "$@"; }

# await_apt WHAT: waits until no process holds one of apt's locks, and says which one it waits for.
await_apt() {
  local until=$((SECONDS + apt_patience)) holder said=''
  while holder=$(apt_holder) && ((SECONDS < until)); do
    [[ $said == "$holder" ]] || say "$1 waits up to $((apt_patience / 60)) minutes for $holder, which is using apt or dpkg"
    said=$holder
    sleep 1
  done
}

# apt_holder: prints the process that holds one of apt's locks (proc_locks(5)), or fails.
apt_holder() {
  local file process
  for file in "${apt_locks[@]}"; do
    [[ -e $file ]] || continue
    for process in $(awk -v inode=":$(stat -c %i "$file")$" '$2 == "POSIX" && $6 ~ inode { print $5 }' /proc/locks); do
      # Files on other disks may have that inode number.
      [[ $(find "/proc/$process/fd" -lname "$(realpath "$file")" 2>/dev/null) ]] || continue
      printf '%s (process %s)\n' "$(<"/proc/$process/comm")" "$process"
      return
    done
  done
  return 1
}

# unneeded_brought: prints the packages that the scripts have installed and that apt would remove as no longer needed.
unneeded_brought() { apt-get -s autoremove | sed -n 's/^Remv \([^ ]*\).*/\1/p' | sort -u | comm -12 - <(sort -u "$brought"); }

# remove_brought: removes the packages that the scripts have installed, unless something else now needs them.
remove_brought() {
  local unneeded
  [[ -s $brought ]] || { say 'the scripts have installed no Debian packages' && return; }
  xargs -a "$brought" apt-mark auto >/dev/null 2>&1 || true
  # An administrator may log in by it now.
  ! systemctl is-enabled --quiet ssh.service ssh.socket 2>/dev/null || apt-mark manual openssh-server >/dev/null
  mapfile -t unneeded < <(unneeded_brought)
  if ((${#unneeded[@]})); then
    apt_quietly 'apt-get remove' "try it yourself: apt-get remove ${unneeded[*]}" -y remove "${unneeded[@]}"
  fi
  say "removed ${#unneeded[@]} of the $(sort -u "$brought" | wc -l) Debian packages that the scripts had installed; the machine needs the others"
  rm -f "$brought"
}

policy=/usr/sbin/policy-rc.d
policy_before=$policy.before-berth

# with_debian_sshd_off COMMAND...: runs COMMAND, during which no package may start Debian's own sshd (invoke-rc.d(8)), and keeps that
# sshd from starting at boot. An administrator who wants it beside berth's runs `systemctl enable ssh`.
with_debian_sshd_off() {
  restore_policy # left by an earlier run that was killed
  trap restore_policy EXIT
  [[ ! -e $policy ]] || mv "$policy" "$policy_before"
  cat >"$policy" <<'POLICY'
#!/bin/sh
# Put here by berth for the time of one apt-get run.
case $1 in ssh | ssh.* | ssh@* | sshd | sshd.* | sshd@* | sshd-*) exit 101 ;; esac
[ ! -x /usr/sbin/policy-rc.d.before-berth ] || exec /usr/sbin/policy-rc.d.before-berth "$@"
POLICY
  chmod 755 "$policy"
  "$@"
  if command -v systemctl >/dev/null; then
    systemctl --quiet disable ssh.service ssh.socket >/dev/null 2>&1 || true
  elif command -v update-rc.d >/dev/null; then
    update-rc.d ssh disable >/dev/null 2>&1 || true
  fi
  restore_policy
  trap - EXIT
}

restore_policy() {
  if [[ -e $policy ]] && grep -q 'Put here by berth' "$policy"; then rm -f "$policy"; fi
  [[ ! -e $policy_before ]] || mv "$policy_before" "$policy"
}
