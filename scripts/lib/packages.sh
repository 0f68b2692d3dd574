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
  [[ $package_lists_are_new ]] || quietly 'apt-get update' 'check the network and /etc/apt/sources.list' in_turn apt-get -q update
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
  DEBIAN_FRONTEND=noninteractive quietly 'apt-get install' "try it yourself: apt-get install $*" \
    in_turn apt-get -q -y --no-install-recommends install "$@"
}

# need_promtool: takes that one program out of Debian's package prometheus, whose installation would start a server.
need_promtool() {
  local folder=/var/cache/berth-promtool
  if command -v promtool >/dev/null || [[ -x $folder/promtool ]]; then return; fi
  say "getting promtool from Debian's package prometheus (19 MB)"
  rm -rf "$folder"
  mkdir -p "$folder"
  (cd "$folder" && quietly 'apt-get download' 'check the network and /etc/apt/sources.list' in_turn apt-get -q download prometheus)
  dpkg-deb --fsys-tarfile "$folder"/prometheus_*.deb | tar -x -C "$folder" --strip-components=3 ./usr/bin/promtool
  rm "$folder"/prometheus_*.deb
}

# in_turn COMMAND...: waits for another script of berth to finish with apt, since apt would fail instead of waiting. Locks a folder that
# every Debian has; dpkg's own locks are on files in it.
in_turn() { flock --close /var/lib/dpkg "$@"; }

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
    DEBIAN_FRONTEND=noninteractive quietly 'apt-get remove' "try it yourself: apt-get remove ${unneeded[*]}" in_turn apt-get -q -y remove "${unneeded[@]}"
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
