# The account, key and user for trying berth, made at the first start, and the commands to try. Uses say.sh; needs $project, $node and
# the settings.

demo_key=$BERTH_STATE_DIR/demo-key
demo_user=demo@example.com

# make_demo: makes the account and its key, if berth has no account yet. `berth key create` shows the key once; this keeps it in a
# file that only root can read.
make_demo() {
  [[ ! -e $demo_key ]] || return 0
  [[ $(cli account list --json) == '[]' ]] || return 0
  local account key
  account=$(cli account create Demo --plan business --json | json_field id)
  key=$(cli key create "$account" --role admin --name demo --json | json_field key)
  (umask 077 && printf '%s\n' "$key" >"$demo_key.new" && mv "$demo_key.new" "$demo_key")
  say "made the account \"Demo\" on the Business plan; its admin key is in $demo_key"
}

# open_loopback: allows webhooks to `berth listen` on this machine, which the destination guard would refuse.
open_loopback() {
  [[ -e $demo_key && ! -v BERTH_WEBHOOK_ALLOW ]] || return 0
  export BERTH_WEBHOOK_ALLOW=127.0.0.0/8,::1/128
  say 'for the demo, webhooks may reach this machine (BERTH_WEBHOOK_ALLOW=127.0.0.0/8,::1/128). To forbid that, set the variable'
  say "yourself or remove $demo_key"
}

# demo_link: prints the link by which the demo's user sets a password, until there is one.
demo_link() {
  local account link
  ! demo_has_password || return 0
  if ! link=$(cli user reset "$demo_user" --json 2>/dev/null); then
    account=$(cli account list --json | tr '}' '\n' | grep '"name":"Demo"' | json_field id | head -n 1)
    link=$(cli user create "$demo_user" --account "$account" --role admin --json)
  fi
  json_field link <<<"$link"
}

demo_has_password() {
  cli user list --json 2>/dev/null | tr '}' '\n' | grep "\"email\":\"$demo_user\"" | grep -q '"state":"active"'
}

show_dashboard() {
  [[ ${BERTH_DASHBOARD:-on} == on ]] || return 0
  local link certificate=${BERTH_TLS_CERT:-$BERTH_STATE_DIR/tls/cert.pem}
  link=$(demo_link) || return 0
  if [[ -z $link ]]; then
    cat <<END

The dashboard is at https://localhost:${BERTH_DASHBOARD_PORT:-$BERTH_API_PORT}/dashboard: sign in as $demo_user. If you forgot the
password: $project/scripts/berth user reset $demo_user
END
    return
  fi
  cat <<END

To see the dashboard, set a password for $demo_user (the link works once, within 24 hours; the certificate is $certificate):

  https://localhost:${BERTH_DASHBOARD_PORT:-$BERTH_API_PORT}/dashboard/${link#*/dashboard/}
END
}

cli() { "$project/scripts/lib/run" "$node" "$@"; }

json_field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

show_demo() {
  [[ -e $demo_key ]] || return 0
  local ca='' api=https://localhost:$BERTH_API_PORT/api/v1/directories
  show_dashboard
  [[ -n ${BERTH_TLS_CERT:-} ]] || ca="--cacert $BERTH_STATE_DIR/tls/cert.pem "
  cat <<END

To try it, paste this into a second terminal, as root:

  $project/scripts/berth listen --port 9000

and these into a third. They create a directory, point its webhook at the receiver, and open it:

  call() { curl -sS $ca-H "Authorization: Bearer \$(cat $demo_key)" -H 'Content-Type: application/json' "\$@"; echo; }
  field() { printf '%s' "\$answer" | sed "s/.*\"\$1\":\"\([^\"]*\)\".*/\1/"; }

  answer=\$(call $api -d '{"directory": {"name": "Demo", "external_id": "demo-1"}}'); echo "\$answer"

  call -X PATCH "$api/\$(field id)" -d '{"directory": {"webhook_url": "http://127.0.0.1:9000/"}}'

  echo "password: \$(field sftp_password)"; sftp -P $BERTH_SFTP_PORT "\$(field sftp_username)@127.0.0.1"

Then \`put FILE\`, and the second terminal shows the webhook. Ctrl-C here stops berth.

END
}
