# Removes what a trial by scripts/start has left, when berth is installed for good. Uses say.sh; needs the settings.

# end_trial BERTH: removes the demo's account with its admin key and its user. BERTH is the installed command; its service runs. An
# account with directories is kept, but its key is revoked and its user disabled.
end_trial() {
  local berth=$1 key=${BERTH_STATE_DIR:-/var/lib/berth}/demo-key account name
  [[ -e $key ]] || return 0
  account=$("$berth" account list --json | objects | grep '"name":"Demo"' | json_value id | head -n 1)
  if [[ $account ]]; then
    if [[ $("$berth" directories --account "$account" --json) == '[]' ]]; then
      "$berth" account delete "$account" --yes >/dev/null
      say 'removed the account "Demo" of an earlier scripts/start, with its admin key and its user (--keep-demo keeps them)'
    else
      "$berth" key list "$account" --json | objects | grep '"name":"demo"' | json_value id |
        while read -r name; do "$berth" key revoke "$name" >/dev/null; done
      "$berth" user disable demo@example.com >/dev/null 2>&1 || true
      say "the account \"Demo\" of an earlier scripts/start has directories, so it stays; its admin key is revoked and its user disabled."
      say "To delete it with all of its files: berth account delete $account"
    fi
  fi
  rm -f "$key"
}

# end_trial_certificate: removes a self-signed certificate that does not name the public host. berth makes another when it starts.
end_trial_certificate() {
  local tls=${BERTH_STATE_DIR:-/var/lib/berth}/tls host=${BERTH_SFTP_HOST:-$(hostname)} kind=-checkhost
  [[ -e ${tls%/tls}/demo-key && ! ${BERTH_TLS_CERT:-} && -e $tls/cert.pem ]] || return 0
  [[ ! $host =~ ^[0-9.]+$ && $host != *:* ]] || kind=-checkip
  ! openssl x509 -in "$tls/cert.pem" -noout $kind "$host" | grep -q 'does match' || return 0
  rm -f "$tls"/{cert,key,last-good}.pem
  say "removed the self-signed certificate of the trial, which does not name $host: clients have to trust the new $tls/cert.pem"
}

objects() { tr '}' '\n'; }
json_value() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
