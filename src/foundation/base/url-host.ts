/** A host as URLs, sftp and `HOST:PORT` write it: an IPv6 address in brackets. */
export function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
