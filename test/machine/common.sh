# What the steps share.
set -euo pipefail
cd /root/berth

kept=/root/kept # what one step leaves for the next
mkdir -p $kept

# Ports that were free on the machine whose network this one shares.
first_port=$(</root/first-port)
api_port=$first_port sftp_port=$((first_port + 1)) metrics_port=$((first_port + 2)) receiver_port=$((first_port + 3))
settings="BERTH_API_PORT=$api_port BERTH_SFTP_PORT=$sftp_port BERTH_METRICS_PORT=$metrics_port BERTH_SFTP_HOST=127.0.0.1 BERTH_WEBHOOK_ALLOW=127.0.0.0/8"
api=https://localhost:$api_port

# With control groups of version 1, a machine in a machine finds them read-only, also after it has booted again.
make_cgroups_writable() {
  awk '$3 == "cgroup" && $4 ~ /^ro/ { print $2 }' /proc/mounts | xargs -r -n 1 mount -o remount,bind,rw
}

check() { printf '  %s\n' "$*"; }
fail() {
  printf 'FAILED: %s\n' "$*" >&2
  journalctl --no-pager --output cat --lines 30 --unit berth --unit berth-sshd >&2
  exit 1
}

page=vm # the one of docs/ whose commands are run

# fenced LANGUAGE FOLDER: the page's blocks in that language, each to FOLDER/NUMBER.
fenced() {
  mkdir -p "$2"
  awk -v fence="\`\`\`$1" -v folder="$2" '
    /^```$/ { open = 0 }
    open { print >(folder "/" number) }
    $0 == fence { open = 1; number++ }' docs/$page.md
}

# chapter LINE [WORD OTHER_WORD]...: runs the block of the page that begins with LINE, with what is different here in the
# place of an example, and prints what it says. `run` sees to it that every block of docs/vm.md has its turn.
chapter() {
  local line=$1 found text
  fenced sh $kept/$page
  found=$(awk -v line="$line" 'FNR == 1 && $0 == line { print FILENAME }' $kept/$page/*)
  [[ $found && $found != *$'\n'* ]] || fail "not one block of docs/$page.md begins with: $line"
  text=$(<"$found")
  shift
  while (($#)); do
    [[ $text == *"$1"* ]] || fail "docs/$page.md does not say $1 any more"
    text=${text//"$1"/"$2"}
    shift 2
  done
  sed 's/^/  $ /' <<<"$text" >&2
  bash -euo pipefail -c "$text" >$kept/output 2>&1 || { cat $kept/output >&2 && fail "docs/$page.md does not work"; }
  cat $kept/output
  echo "${found##*/}" >>$kept/$page-run
}

# ... | says PATTERN: reads to the end, as `grep -q` does not: who writes more then would fail, and the pipe with it.
says() {
  local text
  text=$(cat)
  grep -q "$@" <<<"$text"
}

# until_so WHAT COMMAND...: within two minutes; it is a slow machine that needs more than seconds.
until_so() {
  local what=$1 until=$((SECONDS + 120))
  shift
  while ((SECONDS < until)); do
    "$@" && return
    sleep 0.5 # the API takes 120 requests a minute
  done
  fail "still not so: $what"
}

call() {
  curl -sS --fail-with-body --cacert /var/lib/berth/tls/cert.pem -H "Authorization: Bearer $(<$kept/key)" \
    -H 'Content-Type: application/json' "$@"
}
field() { sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/"; }

healthy() { [[ $(curl -so /dev/null -w '%{http_code}' --cacert /var/lib/berth/tls/cert.pem $api/healthz) == 200 ]]; }
# The page's files came with the program.
shows_docs() {
  local path
  for path in docs docs/swagger-ui.css docs/swagger-ui-bundle.js api/v1/openapi.json dashboard/sign-in dashboard/static/{style.css,script.js,dom.js,find.js}; do
    curl -sSf --cacert /var/lib/berth/tls/cert.pem -o /dev/null "$api/$path" || fail "/$path"
  done
}
host_key() { ssh-keyscan -p $sftp_port -t ed25519 127.0.0.1 2>/dev/null; }
files_of() { echo "/srv/berth/jails/$(of "$1" sftp_username)/files"; }

# new_directory NAME: made and pointed at the receiver; $kept/NAME holds what the API answered.
new_directory() {
  call $api/api/v1/directories -d "{\"directory\": {\"name\": \"$1\"}}" >"$kept/$1"
  call -X PATCH "$api/api/v1/directories/$(of "$1" id)" \
    -d "{\"directory\": {\"webhook_url\": \"http://127.0.0.1:$receiver_port/\"}}" >/dev/null
}
of() { field "$2" <"$kept/$1"; }

# sftp_as NAME [OPTION...]: batch commands on standard input; with its password unless a key is named.
ssh_options=(-P "$sftp_port" -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=$kept/known_hosts -o LogLevel=ERROR)
sftp_as() {
  local name=$1
  shift
  printf '#!/bin/sh\necho %s\n' "$(of "$name" sftp_password)" >$kept/askpass
  chmod 700 $kept/askpass
  SSH_ASKPASS=$kept/askpass SSH_ASKPASS_REQUIRE=force sftp "${ssh_options[@]}" -o BatchMode=no -b - "$@" \
    "$(of "$name" sftp_username)@127.0.0.1"
}
with_key=(-o IdentityFile=$kept/id -o PreferredAuthentications=publickey)

# begin_upload NAME FILE: its client stands still in the middle of it, until end_upload lets it go on and waits for its end.
begin_upload() {
  head -c 8000000 /dev/urandom >"$kept/$2"
  sftp_as "$1" -l 16000 <<<"put $kept/$2" >/dev/null & # some 4 s
  upload=$!
  until_so 'the upload is under way' test -s "$(files_of "$1")/$2"
  pkill -STOP -x sftp
  (($(stat -c %s "$(files_of "$1")/$2") < 8000000)) || fail 'the upload was too fast'
}
end_upload() {
  ! webhook_for "$2" || fail 'announced before its end'
  pkill -CONT -x sftp
  wait $upload || fail 'the upload failed'
  until_so "a webhook for $2" webhook_for "$2"
  cmp "$kept/$2" "$(files_of "$1")/$2"
}

listens() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# A receiver of webhooks that outlives the step, and what it has got.
start_receiver() {
  # One that ended with a failure may still be known to systemd.
  systemctl is-active --quiet receiver || systemctl start receiver 2>/dev/null ||
    systemd-run --quiet --collect --unit receiver berth listen --port $receiver_port
  until_so 'the receiver listens' listens "$receiver_port"
}
webhook_for() { journalctl --no-pager --output cat --unit receiver | says "$1"; }
