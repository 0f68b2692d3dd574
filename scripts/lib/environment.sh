# The settings of an installed berth (systemd.exec(5), EnvironmentFile): lines NAME=VALUE, with optional quotes around a value.

# read_settings FILE: exports the variables that the environment does not have. If a name has several lines, the last one counts, as
# in systemd. A missing file counts as empty.
read_settings() {
  local line name value
  [[ -r $1 ]] || return 0
  while IFS= read -r line || [[ -n $line ]]; do
    [[ $line =~ ^[[:space:]]*(BERTH_[A-Z_]+)=(.*)$ ]] || continue
    name=${BASH_REMATCH[1]} value=${BASH_REMATCH[2]}
    value=${value%"${value##*[![:space:]]}"}
    if [[ $value =~ ^\"(.*)\"$ || $value =~ ^\'(.*)\'$ ]]; then value=${BASH_REMATCH[1]}; fi
    [[ -v $name ]] || export "$name=$value"
  done < <({ cat "$1" && echo; } | tac)
}

# use_settings FILE TEMPLATE: exports the file's settings, which override the environment's. Names each variable of the environment
# that is ignored because the file, or else the template's default, has another value. Uses say.sh.
use_settings() {
  local name value
  local -A given=()
  for name in $(compgen -e BERTH_); do
    given[$name]=${!name}
    unset "$name"
  done
  read_settings "$1"
  for name in "${!given[@]}"; do
    value=${!name-$(sed -n "s/^#$name=//p" "$2")}
    [[ $value == "${given[$name]}" ]] || say "$name stays \"$value\", not \"${given[$name]}\": settings are changed in $1 (see docs/vm.md)"
  done
}

# write_settings TEMPLATE: prints it with the environment's variables in place of their defaults.
write_settings() {
  local line name
  while IFS= read -r line; do
    name=${line%%=*}
    name=${name#\#}
    if [[ $line == '#BERTH_'*=* && -v $name ]]; then printf '%s="%s"\n' "$name" "${!name}"; else printf '%s\n' "$line"; fi
  done <"$1"
}
