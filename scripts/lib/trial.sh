# What a trial by scripts/start leaves where berth is then installed for good. Uses say.sh; needs the settings.

# end_trial BERTH: removes the demo's account with its admin key and its user. BERTH is the installed command, and its service runs. An
# account in which there are directories stays, and nobody gets into it any more by what the demo has made.
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
      say "the account \"Demo\" of an earlier scripts/start has directories and stays; its admin key and its user are out. To delete it"
      say "with all of its files: berth account delete $account"
    fi
  fi
  rm -f "$key"
}

# end_trial_certificate: a self-signed certificate that does not name the public host goes, and berth makes another at its start.
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
