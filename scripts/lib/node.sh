# A Node that can run berth, and the npm packages in the lock file. Uses say.sh and packages.sh; needs $project.

node=''
own_node=$project/scripts/node/node_modules

# find_node: sets $node to the Node of an installed berth, the machine's own if it is new enough (package.json, engines), or the one
# below scripts/node. Fails when there is none.
find_node() {
  local wanted candidate
  wanted=$(sed -n 's/.*"node": ">=\([0-9.]*\)".*/\1/p' "$project/package.json")
  for candidate in "$project/node/bin/node" "$(command -v node || true)" "$own_node/node-linux-$(node_arch)/bin/node"; do
    [[ -x $candidate ]] && at_least "$wanted" "$("$candidate" --version)" && node=$candidate && return
  done
  return 1
}

# at_least WANTED FOUND: compares versions; FOUND may begin with a v.
at_least() { printf '%s\n' "$1" "${2#v}" | sort --check=quiet --version-sort; }

node_arch() {
  case $(uname -m) in
    x86_64) echo x64 ;;
    aarch64) echo arm64 ;;
    *) uname -m ;;
  esac
}

# need_node: like find_node, but installs a Node if there is none.
need_node() {
  find_node && return
  [[ $(node_arch) == *64 ]] || die "berth has no Node for $(uname -m): install Node 24, so that \`node\` runs it"
  need_npm
  say 'installing Node 24 from the npm registry, since this machine has none that is new enough'
  npm_ci_node "$project/scripts/node"
  find_node || die 'Node 24 was installed but does not run: see scripts/node'
}

# Debian's npm comes with a Node that is too old for berth but good enough for npm.
need_npm() {
  local why='since this machine has no npm, which brings Node and the npm packages'
  command -v npm >/dev/null || need_packages nodejs npm
}

# npm_ci FOLDER [OPTION...]: installs exactly the lock file's packages. No package's script runs: none that we use needs one. By
# default npm waits for more than a minute between attempts when the registry does not answer.
npm_ci() {
  local folder=$1
  shift
  quietly 'npm ci' 'check the network and the npm registry' \
    run_npm --prefix "$folder" ci --ignore-scripts --no-audit --no-fund --no-update-notifier \
      --fetch-retry-mintimeout=2000 --fetch-retry-maxtimeout=5000 "$@"
}

# npm_ci_node FOLDER: installs the lock file's Node. npm reports success without a message when it cannot get an optional package.
npm_ci_node() {
  npm_ci "$1"
  [[ -x $1/node_modules/node-linux-$(node_arch)/bin/node ]] ||
    die 'npm installed no Node: check the network and the npm registry, or install Node 24, so that `node` runs it'
}

# run_npm ARGUMENT...: runs npm with the Node that was found, if any. npm silently leaves out optional packages, such as native
# bindings, that need a newer Node than the one it runs on. Only Debian's Node finds the modules of Debian's npm.
run_npm() {
  local npm
  npm=$(readlink -f "$(command -v npm)")
  if [[ -z ${node:-} ]]; then
    npm "$@"
  elif [[ $npm == /usr/share/nodejs/* ]]; then
    NODE_PATH=/usr/share/nodejs:/usr/lib/nodejs:/usr/lib/$(uname -m)-linux-gnu/nodejs "$node" "$npm" "$@"
  else
    PATH=$(dirname "$node"):$PATH npm "$@"
  fi
}

# need_modules production|all [FOLDER]: fills node_modules there from the lock file. A stamp records its contents. A folder without a
# stamp was filled by somebody else, and is filled with everything, so that a developer loses no tool.
need_modules() {
  local folder=${2:-$project} stamp lock found
  stamp=$folder/node_modules/.berth-stamp
  lock=$(sha256sum <"$folder/package-lock.json")
  found=$(cat "$stamp" 2>/dev/null || true)
  [[ $found == "all $lock" || $found == "$1 $lock" ]] && return
  need_npm
  local what=$1 options=()
  [[ $what == production && -d $folder/node_modules && $found != production* ]] && what=all
  [[ $what == all ]] || options=(--omit=dev)
  say 'installing npm packages from the lock file'
  rm -f "$stamp"
  npm_ci "$folder" "${options[@]}"
  echo "$what $lock" >"$stamp"
}
