# What the steps share. Ports are their own, since the machine shares the network of the one that it runs on.
set -euo pipefail
cd /root/berth

settings=(BERTH_API_PORT=18443 BERTH_SFTP_PORT=12222 BERTH_METRICS_PORT=19464 BERTH_SFTP_HOST=127.0.0.1
  BERTH_WEBHOOK_ALLOW=127.0.0.0/8)
api=https://localhost:18443
kept=/root/kept # what one step leaves for the next
mkdir -p $kept

check() { printf '  %s\n' "$*"; }
fail() {
  printf 'FAILED: %s\n' "$*" >&2
  journalctl --no-pager --output cat --lines 30 --unit berth --unit berth-sshd >&2
  exit 1
}

# until_so WHAT COMMAND...: within 20 s.
until_so() {
  local what=$1 try
  shift
  for try in {1..200}; do
    "$@" && return
    sleep 0.1
  done
  fail "still not so: $what"
}

call() {
  curl -sS --fail-with-body --cacert /var/lib/berth/tls/cert.pem -H "Authorization: Bearer $(<$kept/key)" \
    -H 'Content-Type: application/json' "$@"
}
field() { sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/"; }

healthy() { [[ $(curl -so /dev/null -w '%{http_code}' --cacert /var/lib/berth/tls/cert.pem $api/healthz) == 200 ]]; }

# new_directory NAME: made and pointed at the receiver; $kept/NAME holds what the API answered.
new_directory() {
  call $api/api/v1/directories -d "{\"directory\": {\"name\": \"$1\"}}" >"$kept/$1"
  call -X PATCH "$api/api/v1/directories/$(of "$1" id)" \
    -d '{"directory": {"webhook_url": "http://127.0.0.1:19000/"}}' >/dev/null
}
of() { field "$2" <"$kept/$1"; }

# sftp_as NAME [OPTION...]: batch commands on standard input; with its password unless a key is named.
ssh_options=(-P 12222 -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=$kept/known_hosts -o LogLevel=ERROR)
sftp_as() {
  local name=$1
  shift
  printf '#!/bin/sh\necho %s\n' "$(of "$name" sftp_password)" >$kept/askpass
  chmod 700 $kept/askpass
  SSH_ASKPASS=$kept/askpass SSH_ASKPASS_REQUIRE=force sftp "${ssh_options[@]}" -o BatchMode=no -b - "$@" \
    "$(of "$name" sftp_username)@127.0.0.1"
}
with_key=(-o IdentityFile=$kept/id -o PreferredAuthentications=publickey)

# A receiver of webhooks that outlives the step, and what it has got.
start_receiver() {
  systemctl is-active --quiet receiver ||
    systemd-run --quiet --collect --unit receiver berth listen --port 19000
  until_so 'the receiver listens' bash -c ': </dev/tcp/127.0.0.1/19000' 2>/dev/null
}
webhook_for() { journalctl --no-pager --output cat --unit receiver | grep -q "$1"; }
