# The program as it is installed, for scripts/install and scripts/package: sources, a Node and npm packages of their own.
# Uses say.sh, packages.sh, node.sh; needs $project.

# stage_program FOLDER [BEFORE]: fills an empty folder. Node and npm packages come from BEFORE, an earlier installation, where
# its lock files are the same.
stage_program() {
  local to=$1 before=${2:-/nonexistent} name
  for name in package.json package-lock.json openssh scripts src systemd packaging README.md; do
    cp -r "$project/$name" "$to/$name"
  done
  rm -rf "$to/scripts/node/node_modules"
  chmod -R u=rwX,go=rX "$to"
  stage_node "$to" "$before"
  stage_modules "$to" "$before"
}

stage_node() {
  local to=$1 before=$2 lock=scripts/node/package-lock.json from
  mkdir -p "$to/node/bin"
  if [[ -x $before/node/bin/node ]] && cmp -s "$before/$lock" "$to/$lock"; then
    cp -a "$before/node" "$to"
  else
    need_npm
    say 'getting Node 24 from the npm registry'
    find_node || true
    npm_ci "$to/scripts/node"
    from=$to/scripts/node/node_modules/node-linux-$(node_arch)
    mv "$from/bin/node" "$to/node/bin/node"
    [[ ! -e $from/LICENSE ]] || mv "$from/LICENSE" "$to/node/LICENSE"
    rm -rf "$to/scripts/node/node_modules"
  fi
  node=$to/node/bin/node
}

stage_modules() {
  local to=$1 before=$2 binding
  if [[ -d $before/node_modules ]] && cmp -s "$before/package-lock.json" "$to/package-lock.json"; then
    cp -a "$before/node_modules" "$to/node_modules"
    return
  fi
  need_npm
  say 'getting the npm packages of the lock file'
  npm_ci "$to" --omit=dev
  # What only a compiler, a developer or another system needs: three quarters of it all.
  rm -rf "$to"/node_modules/better-sqlite3/{deps,src,binding.gyp} "$to"/node_modules/{.bin,typescript,@typescript,node-addon-api}
  binding=linux-$(node_arch).node
  find "$to/node_modules/better-sqlite3/prebuilds" -name '*.node' ! -name "$binding" -delete
}

# put_units LIB PREFIX: the units, with the program's place filled in, the user, folders and kernel settings that they want.
put_units() {
  local unit
  mkdir -p "$1"/{systemd/system,sysusers.d,tmpfiles.d,sysctl.d}
  for unit in berth berth-sshd; do
    sed "s|@PREFIX@|$2|g" "$project/packaging/systemd/$unit.service" | replace_file "$1/systemd/system/$unit.service"
  done
  replace_file "$1/sysusers.d/berth.conf" <"$project/packaging/systemd/berth.sysusers"
  replace_file "$1/tmpfiles.d/berth.conf" <"$project/packaging/systemd/berth.tmpfiles"
  replace_file "$1/sysctl.d/60-berth.conf" <"$project/packaging/systemd/60-berth.conf"
}

# replace_file PATH: with standard input; a file that is the same already keeps its time, so that systemd sees no change.
replace_file() {
  cat >"$1.new"
  chmod 644 "$1.new"
  if cmp -s "$1.new" "$1"; then rm "$1.new"; else mv "$1.new" "$1"; fi
}
