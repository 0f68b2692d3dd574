/**
 * Resolves receivers' names without `dns.lookup`. That function runs getaddrinfo in libuv's few threads, where two
 * names with dead servers would delay all other look-ups of the process for seconds. c-ares needs no thread, but does
 * not read /etc/hosts, so this file does.
 */
import { Resolver } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { isShortage } from './shortage.ts';

/** Addresses of a name, as text; rejects when it has none. Nothing is cached: connections are kept open instead. */
export type ResolveName = (name: string) => Promise<string[]>;

/** How long an answer for the other family is waited for after the first, in ms. */
const LATE_MS = 250;

export interface NameOptions {
  readonly hostsFile?: string;
  /** Servers to ask, as `address:port`; by default those of resolv.conf, which is read each time. */
  readonly servers?: readonly string[];
}

export function resolver({ hostsFile = '/etc/hosts', servers }: NameOptions = {}): ResolveName {
  return async (name) => {
    const wanted = name.toLowerCase().replace(/\.$/, '');
    const listed = fromHosts(await readFile(hostsFile, 'utf8').catch(nothing), wanted);
    if (listed.length > 0) return listed;
    const dns = new Resolver({ timeout: 1500, tries: 2 });
    if (servers) dns.setServers(servers);
    // Answers of both families, for a receiver that is reachable over one of them only.
    const questions = [dns.resolve4(wanted), dns.resolve6(wanted)] as const;
    // Some servers answer the question for one family and drop the other.
    void Promise.any(questions)
      .then(() => sleep(LATE_MS, undefined, { ref: false }))
      .then(
        () => dns.cancel(),
        () => undefined,
      );
    const answers = await Promise.allSettled(questions);
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (found.length > 0) return found;
    throw new Error(`the name ${name} cannot be resolved`, {
      cause: answers[0].status === 'rejected' && answers[0].reason,
    });
  };
}

/**
 * A missing hosts file counts as empty. If the file cannot be opened for lack of resources, it may list the name, so
 * the error is passed on.
 */
function nothing(error: unknown): string {
  if (isShortage(error)) throw error;
  return '';
}

/** hosts(5): an address, then names, `#` begins a comment. */
function fromHosts(text: string, name: string): string[] {
  return text.split('\n').flatMap((line) => {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    return isIP(address) && names.some((listed) => listed.toLowerCase() === name) ? [address] : [];
  });
}
