/**
 * Finds logins, and refusals with their reasons, in sshd's log at LogLevel INFO.
 *
 * sshd logs a client's texts as they are, including line ends (log.c: VIS_SAFE on standard error): an unknown username, a
 * list of algorithms, the message of a disconnect. So a client can forge lines. Each line comes with the process that wrote
 * it, and sshd has one process for each connection. A process is not believed at all when its lines name more than one
 * client, or when they report a right password or key after a line that may hold a client's text: sshd itself admits nobody
 * after such a line.
 *
 * openssh/admit logs its reasons by syslog, in the name of the sshd process that ran it. No client can forge such a line: it
 * has the name of a program other than sshd, and lines of sshd's PAM modules begin with the modules' names.
 */
import { isIP } from 'node:net';
import { type Micros, SECOND } from '../../foundation/base/clock.ts';

export interface LogLine {
  readonly at: Micros;
  /** The process that wrote it. */
  readonly pid: string;
  readonly message: string;
  /** Whether the line came by syslog and not from sshd itself: then it is one whole message, even with line ends in it. */
  readonly isSyslog?: boolean;
}

/** That log, in systemd's journal (journal.ts) or in a file (sshd-log-file.ts). */
export interface SshdLog {
  /**
   * All lines since then of the processes that named this user or address, in order; undefined if the log has no line of berth's sshd.
   * @throws {Error} when the log cannot be read.
   */
  linesNaming(what: string, since: Micros): Promise<LogLine[] | undefined>;
  /** The time of the oldest line. Those before it were never kept, or are removed; undefined when there is no log. */
  beginning(): Promise<Micros | undefined>;
  /** Yields the lines since that time, and new ones until the signal. Ends at once when there is no log. */
  linesSince(since: Micros, signal: AbortSignal): AsyncGenerator<LogLine>;
}

export interface LoginAttempt {
  readonly at: Micros;
  readonly kind: 'login' | 'refused';
  /** Null when sshd does not log it. */
  readonly address: string | null;
  /** The key or method of the login, or the reason of the refusal. */
  readonly text: string;
}

/** Lines of one PID that are further apart than a login may take belong to two connections: the PID was reused. */
export const APART = 60 * SECOND;

/** The longest time between a reason of openssh/admit and sshd's line about the same refusal. */
const LOGIN = 10 * SECOND;

/** The text when the log of an earlier berth gives no reason. */
const UNEXPLAINED = 'not admitted';

/** A password or key that was accepted or refused, and the key at the end. */
const DECISION =
  /^(Accepted|Failed) (password|publickey) for ([a-z0-9-]+) from (\S+) port \d+ ssh2(?:: (\S+) (SHA256:\S+))?$/;
/** In syslog, sshd prefixes an error with its level. */
const NOT_ADMITTED = /^(?:fatal: )?Access denied for user ([a-z0-9-]+) by PAM account configuration(?: \[preauth\])?$/;
/** The lines of openssh/admit. */
const REASON =
  /^Login of ([a-z0-9-]+) from (\S+) refused: (suspended|expired|not from an allowed network|too many connections)$/;
const TOO_MANY_TRIES =
  /^(?:error: )?maximum authentication attempts exceeded for ([a-z0-9-]+) from (\S+) port \d+ ssh2(?: \[preauth\])?$/;
const LEFT =
  /^(?:Disconnected from|Connection (?:closed|reset) by) authenticating user ([a-z0-9-]+) (\S+) port \d+(?: \[preauth\])?$/;
const OLD_SIGNATURE = /^userauth_pubkey: signature algorithm (\S+) not in PubkeyAcceptedAlgorithms(?: \[preauth\])?$/;

/** sshd's lines before a login that hold no text of the client's. */
const OWN_LINES = [
  DECISION,
  NOT_ADMITTED,
  OLD_SIGNATURE,
  /^(?:Postponed|Partial) \S+ for [a-z0-9-]+ from \S+ port \d+ ssh2(?: \[preauth\])?$/,
  /^userauth_pubkey: key type \S+ not in PubkeyAcceptedAlgorithms(?: \[preauth\])?$/,
  /^(?:error: )?AuthorizedKeysCommand \S+ \S+ \S+ failed, status \d+(?: \[preauth\])?$/,
  // Comes by syslog, whose messages are not split at line ends.
  /^pam_\w+\(sshd:\w+\): /,
];

/** sshd and the client have no algorithm in common, so that no name was sent. The offer is the client's text. */
const NO_AGREEMENT =
  /^Unable to negotiate with \S+ port \d+: no matching ([A-Za-z ]+) found\. Their offer: (.*?)(?: \[preauth\])?$/;
/** How many characters of an offer are shown. */
const OFFER_LENGTH = 300;

/** A username that does not exist. It is the client's text, and may hold anything. */
const UNKNOWN_USER = /^Invalid user (.*) from (\S+) port \d+$/;
/** The listener's line about a client whose connection it closes (sshd_config(5), PerSourcePenalties, MaxStartups). */
const DROPPED = /^drop connection #\d+ from \[(\S+)\]:\d+ on \[\S+\]:\d+ (.+)$/;
/** Other lines of the listener. They hold no client's text. */
const OF_LISTENER = /^(?:Server listening on |Received SIG|(?:error: )?beginning MaxStartups|exited MaxStartups)/;

export interface Attempts {
  readonly attempts: readonly LoginAttempt[];
  /** The number of connections that forged lines. */
  readonly forged: number;
}

/** The attempts to log in as that user. `lines` are in the order in which they were written. */
export function attemptsIn(lines: readonly LogLine[], username: string): Attempts {
  const ofHook = lines.filter(isOfHook);
  const connections = byConnection(lines.filter((line) => !isOfHook(line)));
  const honest = connections.filter((connection) => clientsIn(connection).size <= 1 && !isOutOfTurn(connection));
  const attempts = honest.flatMap((connection) => attemptsOf(connection, username));
  const alone = honest.filter(({ length }) => length === 1).flat(); // the form of reasons from an earlier berth in the journal
  const reasons = reasonsIn([...ofHook, ...alone], username);
  const all = withReasons(attempts, reasons);
  return { attempts: all.toSorted((a, b) => a.at - b.at), forged: connections.length - honest.length };
}

/** The attempts from that address, for any username. `lines` are in the order in which they were written. */
export function attemptsFrom(lines: readonly LogLine[], address: string): Attempts {
  const own = byConnection(lines.filter((line) => !isOfHook(line)));
  const connections = own.filter((connection) => !isListener(connection));
  const honest = connections.filter((connection) => clientsIn(connection).size <= 1 && !isOutOfTurn(connection));
  const made = honest.filter((connection) => [...clientsIn(connection)][0]?.startsWith(`${address} `));
  const reasons = lines.filter(isOfHook);
  const attempts = made.flatMap((connection) => {
    const users = new Set(connection.flatMap((line) => userIn(line) ?? []));
    const known = [...users].flatMap((user) =>
      withReasons(attemptsOf(connection, user), reasonsIn(reasons, user).filter(isNear(connection))).map((attempt) => ({
        ...attempt,
        text: `${user}: ${attempt.text}`,
      })),
    );
    const all = [...known, ...unknownIn(connection)];
    const [first] = connection;
    return all.length > 0 || !first
      ? all
      : [{ at: first.at, kind: 'refused' as const, address, text: whyNameless(connection) }];
  });
  const all = [...attempts, ...own.filter(isListener).flatMap((connection) => droppedIn(connection, address))];
  return { attempts: all.toSorted((a, b) => a.at - b.at), forged: connections.length - honest.length };
}

/** The attempts to log in with a username that no directory has. */
export function attemptsOfUnknown(lines: readonly LogLine[], name: string): Attempts {
  const connections = byConnection(lines.filter((line) => !isOfHook(line)));
  const honest = connections.filter((connection) => clientsIn(connection).size <= 1 && !isOutOfTurn(connection));
  const attempts = honest.flatMap((connection) => unknownIn(connection).filter(({ text }) => text === noUser(name)));
  return { attempts, forged: connections.length - honest.length };
}

const noUser = (name: string): string => `there is no user ${JSON.stringify(name)}`;

function unknownIn(lines: readonly LogLine[]): LoginAttempt[] {
  return lines.flatMap(({ at, message }): LoginAttempt[] => {
    const [found, name = '', address = null] = UNKNOWN_USER.exec(message) ?? [];
    return found === undefined ? [] : [{ at, kind: 'refused', address, text: noUser(name) }];
  });
}

function isListener(lines: readonly LogLine[]): boolean {
  return lines.every(({ message }) => DROPPED.test(message) || OF_LISTENER.test(message));
}

function droppedIn(lines: readonly LogLine[], address: string): LoginAttempt[] {
  return lines.flatMap(({ at, message }): LoginAttempt[] => {
    const [, from, why = ''] = DROPPED.exec(message) ?? [];
    return from === address ? [{ at, kind: 'refused', address, text: `connection closed at once: ${why}` }] : [];
  });
}

function isNear(connection: readonly LogLine[]): (attempt: LoginAttempt) => boolean {
  return ({ at }) => connection.some((line) => Math.abs(line.at - at) < LOGIN);
}

/** Whether openssh/admit wrote the line, so that no client can have forged it. */
function isOfHook({ isSyslog = false, message }: LogLine): boolean {
  return isSyslog && REASON.test(message);
}

/** The user of the login attempt that a line reports, if it reports one. */
export function userIn({ message }: LogLine): string | undefined {
  const named = [NOT_ADMITTED, REASON, TOO_MANY_TRIES, LEFT].map((form) => form.exec(message)?.[1]);
  return DECISION.exec(message)?.[3] ?? named.find((user) => user !== undefined);
}

function reasonsIn(lines: readonly LogLine[], username: string): LoginAttempt[] {
  return lines.flatMap(({ at, message }): LoginAttempt[] => {
    const [, user, address = null, text = ''] = REASON.exec(message) ?? [];
    return user === username ? [{ at, kind: 'refused', address, text }] : [];
  });
}

/** Adds each reason to sshd's line about the password or key, if there is one; otherwise it stands alone. */
function withReasons(attempts: readonly LoginAttempt[], reasons: readonly LoginAttempt[]): LoginAttempt[] {
  const found = [...attempts];
  for (const reason of reasons) {
    const isSameRefusal = ({ at, address, text }: LoginAttempt): boolean =>
      text.endsWith(UNEXPLAINED) && address === reason.address && Math.abs(at - reason.at) < LOGIN;
    const index = found.findIndex(isSameRefusal);
    const attempt = found[index];
    if (attempt) found[index] = { ...attempt, text: attempt.text.replace(UNEXPLAINED, reason.text) };
    else found.push(reason);
  }
  return found;
}

function byConnection(lines: readonly LogLine[]): LogLine[][] {
  const connections: LogLine[][] = [];
  const latest = new Map<string, LogLine[]>();
  for (const line of lines) {
    const before = latest.get(line.pid);
    if (before && line.at - (before.at(-1)?.at ?? 0) < APART) before.push(line);
    else {
      const connection = [line];
      connections.push(connection);
      latest.set(line.pid, connection);
    }
  }
  return connections;
}

/** Every client that these lines name, by address and port. */
function clientsIn(lines: readonly LogLine[]): Set<string> {
  const named = lines.flatMap(({ message }) => [...message.matchAll(/(\S+) port (\d+)/g)]);
  return new Set(named.filter(([, address = '']) => isIP(address) !== 0).map(([client]) => client));
}

/** Whether a password or key is reported as right after a line that may hold a client's text. */
function isOutOfTurn(lines: readonly LogLine[]): boolean {
  const first = lines.findIndex(({ message }) => !OWN_LINES.some((form) => form.test(message)));
  return first !== -1 && lines.slice(first).some(({ message }) => isCredentialRight(message));
}

function isCredentialRight(message: string): boolean {
  return DECISION.exec(message)?.[1] === 'Accepted' || NOT_ADMITTED.test(message);
}

function attemptsOf(lines: readonly LogLine[], username: string): LoginAttempt[] {
  const found: LoginAttempt[] = [];
  let oldSignature: string | undefined;
  for (const { at, message } of lines) {
    const refuse = (address: string | null, text: string): void =>
      void found.push({ at, kind: 'refused', address, text });
    const [, outcome, method, user, address = null, type, fingerprint] = DECISION.exec(message) ?? [];
    const key = fingerprint === undefined ? 'key' : `key ${fingerprint} (${type})`;
    if (user === username && outcome === 'Accepted')
      found.push({ at, kind: 'login', address, text: `by ${method === 'password' ? 'password' : key}` });
    else if (user === username) refuse(address, method === 'password' ? 'wrong password' : `unknown ${key}`);
    oldSignature = OLD_SIGNATURE.exec(message)?.[1] ?? oldSignature;
    const last = found.at(-1);
    if (NOT_ADMITTED.exec(message)?.[1] === username && last?.kind === 'refused')
      // The line before reports a right password or key as "Failed".
      found[found.length - 1] = { ...last, text: notAdmitted(last.text) };
    const [, tired, from = null] = TOO_MANY_TRIES.exec(message) ?? [];
    if (tired === username) refuse(from, 'too many tries on one connection');
    const [, left, client = null] = LEFT.exec(message) ?? [];
    if (left === username && found.length === 0) refuse(client, whyLeft(oldSignature));
  }
  return found;
}

/** Why a client left before it sent a name. */
function whyNameless(connection: readonly LogLine[]): string {
  for (const { message } of connection) {
    const [, what, offer = ''] = NO_AGREEMENT.exec(message) ?? [];
    if (what !== undefined) return `no ${what} in common: the client offers only ${offer.slice(0, OFFER_LENGTH)}`;
  }
  return 'disconnected without logging in';
}

function notAdmitted(seeming: string): string {
  const right = seeming === 'wrong password' ? 'password' : seeming.replace('unknown ', '');
  return `right ${right}, but ${UNEXPLAINED}`;
}

/** At INFO, sshd logs a wrong password, but not the first keys. */
function whyLeft(oldSignature: string | undefined): string {
  if (oldSignature === undefined) return 'no password was sent, and no known key';
  return `the client signs with ${oldSignature}, which sshd refuses as too weak: update the client`;
}
