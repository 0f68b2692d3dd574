# The settings of an installed berth (systemd.exec(5), EnvironmentFile): NAME=VALUE lines, a value may be in quotes.

# read_settings FILE: exports what the environment does not have already. If a name has several lines, the last counts, as for systemd. A
# file that is not there has none.
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

# use_settings FILE TEMPLATE: the same, but the file counts, or else the default in the template: a variable that was given and
# says something else is not in force, and a line says so. Uses say.sh.
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

# write_settings TEMPLATE: prints it, with the variables of the environment in the place of their defaults.
write_settings() {
  local line name
  while IFS= read -r line; do
    name=${line%%=*}
    name=${name#\#}
    if [[ $line == '#BERTH_'*=* && -v $name ]]; then printf '%s="%s"\n' "$name" "${!name}"; else printf '%s\n' "$line"; fi
  done <"$1"
}
