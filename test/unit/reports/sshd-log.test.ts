/** Logins as sshd's log shows them. The lines are those of OpenSSH 9.2 at LogLevel INFO, with the processes that wrote them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loginChecks, remedyFor } from '../../../src/operating/reports/login-rules.ts';
import { attemptsFrom, attemptsIn, attemptsOfUnknown, type LogLine } from '../../../src/operating/reports/sshd-log.ts';

const USER = 'acme-x7k2m9qa';
const KEY = 'SHA256:Af5HHd387tkeoJ6l9jjpJ8cvxps2XG18DaxYWHvbFoY';

/** A second between the lines. */
function lines(...written: readonly (readonly [pid: number, message: string])[]): LogLine[] {
  return written.map(([pid, message], index) => ({ at: index * 1e6, pid: String(pid), message }));
}

/** Each line of each message: as the journal has what sshd wrote to standard error. */
function from(pid: number, ...messages: readonly string[]): LogLine[] {
  return lines(...messages.flatMap((message) => message.split('\n').map((line) => [pid, line] as const)));
}

const texts = (found: ReturnType<typeof attemptsIn>): string[] =>
  found.attempts.map(({ kind, address, text }) => `${kind} ${address}: ${text}`);

test('each login method and each refusal has a sentence', () => {
  const found = attemptsIn(
    lines(
      [1, 'Server listening on 0.0.0.0 port 2222.'],
      [10, `Accepted password for ${USER} from 127.0.0.1 port 34210 ssh2`],
      [10, 'Received disconnect from 127.0.0.1 port 34210:11: '],
      [10, `Disconnected from user ${USER} 127.0.0.1 port 34210`],
      [11, `Failed password for ${USER} from 127.0.0.1 port 34214 ssh2`],
      [11, 'Received disconnect from 127.0.0.1 port 34214:11:  [preauth]'],
      [11, `Disconnected from authenticating user ${USER} 127.0.0.1 port 34214 [preauth]`],
      [12, `Accepted publickey for ${USER} from 2001:db8::1 port 34218 ssh2: ED25519 ${KEY}`],
      [13, 'Received disconnect from 127.0.0.1 port 48630:11:  [preauth]'],
      [13, `Disconnected from authenticating user ${USER} 127.0.0.1 port 48630 [preauth]`],
      [140, `Login of ${USER} from 127.0.0.1 refused: too many connections`],
      [14, `Failed password for ${USER} from 127.0.0.1 port 33632 ssh2`],
      [14, `Access denied for user ${USER} by PAM account configuration [preauth]`],
      [15, `Failed publickey for ${USER} from 127.0.0.1 port 33634 ssh2: ED25519 ${KEY}`],
      [15, `Access denied for user ${USER} by PAM account configuration [preauth]`],
      [16, `Failed publickey for ${USER} from 127.0.0.1 port 33640 ssh2: RSA ${KEY}`],
      [16, `error: maximum authentication attempts exceeded for ${USER} from 127.0.0.1 port 33640 ssh2 [preauth]`],
      [17, 'userauth_pubkey: signature algorithm ssh-rsa not in PubkeyAcceptedAlgorithms [preauth]'],
      [17, `Connection closed by authenticating user ${USER} 127.0.0.1 port 33650 [preauth]`],
      [200, `Login of ${USER} from 2001:db8::2 refused: not from an allowed network`],
      [201, `Login of other-${USER} from 127.0.0.1 refused: suspended`],
      [18, `Accepted password for other-${USER} from 127.0.0.1 port 33660 ssh2`],
      [19, `Failed password for ${USER}x from 127.0.0.1 port 33670 ssh2`],
    ),
    USER,
  );
  assert.deepEqual(texts(found), [
    'login 127.0.0.1: by password',
    'refused 127.0.0.1: wrong password',
    `login 2001:db8::1: by key ${KEY} (ED25519)`,
    'refused 127.0.0.1: no password was sent, and no known key',
    'refused 127.0.0.1: right password, but too many connections',
    `refused 127.0.0.1: right key ${KEY} (ED25519), but not admitted`,
    `refused 127.0.0.1: unknown key ${KEY} (RSA)`,
    'refused 127.0.0.1: too many tries on one connection',
    'refused 127.0.0.1: the client signs with ssh-rsa, which sshd refuses as too weak: update the client',
    'refused 2001:db8::2: not from an allowed network',
  ]);
  assert.equal(found.forged, 0);
});

test('why openssh/admit refused comes by syslog, among the lines of the sshd process that asked it', () => {
  const reasons = ['suspended', 'expired', 'not from an allowed network', 'too many connections'];
  const written = reasons.flatMap((reason, index) => {
    const pid = 30 + index;
    const all = lines(
      [pid, `Login of ${USER} from 127.0.0.1 refused: ${reason}`],
      [pid, `Failed password for ${USER} from 127.0.0.1 port 33${pid} ssh2`],
      [pid, `Access denied for user ${USER} by PAM account configuration [preauth]`],
    );
    return all.map((line, which) => ({ ...line, at: line.at + pid * 20e6, isSyslog: which === 0 }));
  });
  const found = attemptsIn(written, USER);
  assert.deepEqual(
    texts(found),
    reasons.map((reason) => `refused 127.0.0.1: right password, but ${reason}`),
  );
  assert.equal(found.forged, 0);
  // The same words from a client, which sshd quotes on standard error.
  const forged = attemptsIn(
    written.map((line) => ({ ...line, isSyslog: false })),
    USER,
  );
  assert.deepEqual(texts(forged), []);
  assert.equal(forged.forged, reasons.length);
});

test('a username that imitates log lines is never believed, however many lines it contains', () => {
  const forgeries = [
    // As sshd wrote them: the name is in the middle, line ends and all.
    [`x from 6.6.6.6 port 5 ssh2\nAccepted password for ${USER}`, 'x'],
    [`x\nAccepted password for ${USER} from 6.6.6.6 port 1 ssh2\ny`, 'y'],
    [
      `x from 6.6.6.6 port 1\nFailed password for ${USER} from 6.6.6.6 port 1 ssh2\nFailed password for invalid user z`,
      'z',
    ],
    [`${USER} from 9.9.9.9 port 1 ssh2: foo`, ''],
  ] as const;
  for (const [name] of forgeries) {
    const found = attemptsIn(
      from(
        20,
        `Invalid user ${name} from 127.0.0.1 port 48658`,
        `Failed password for invalid user ${name} from 127.0.0.1 port 48658 ssh2`,
        `Connection closed by invalid user ${name} 127.0.0.1 port 48658 [preauth]`,
      ),
      USER,
    );
    assert.deepEqual(texts(found), [], name);
    assert.equal(found.forged, 1, name);
  }
  const reason = from(
    22,
    `Invalid user x\nLogin of ${USER} from 6.6.6.6 refused: suspended\ny from 127.0.0.1 port 48658`,
    `Connection closed by invalid user x\nLogin of ${USER} from 6.6.6.6 refused: suspended\ny 127.0.0.1 port 48658 [preauth]`,
  );
  assert.deepEqual(texts(attemptsIn(reason, USER)), []);
  // What a client that has logged in says as it leaves.
  const left = from(
    21,
    `Accepted password for other from 127.0.0.1 port 5000 ssh2`,
    `Received disconnect from 127.0.0.1 port 5000:11: bye\nFailed password for ${USER} from 6.6.6.6 port 1 ssh2`,
  );
  assert.deepEqual(texts(attemptsIn(left, USER)), []);
});

test('nor is a client believed that forges its own address, in a name, an offer or the words of a disconnect', () => {
  const accepted = `Accepted password for ${USER} from 127.0.0.1 port 5000 ssh2`;
  const admitted = [
    `Failed password for ${USER} from 127.0.0.1 port 5000 ssh2`,
    `Access denied for user ${USER} by PAM account configuration [preauth]`,
  ].join('\n');
  for (const words of [accepted, `y\n${accepted}\nz`, `${accepted}\n`, admitted, `bye [preauth]\n${admitted}\n`]) {
    const ways = {
      'a user name': [
        `Invalid user x\n${words} from 127.0.0.1 port 5000`,
        `Failed password for invalid user x\n${words} from 127.0.0.1 port 5000 ssh2`,
      ],
      'another name': [
        `Disconnecting authenticating user other 127.0.0.1 port 5000: Change of username or service not allowed: ` +
          `(other,ssh-connection) -> (x\n${words},ssh-connection) [preauth]`,
      ],
      'an offer of algorithms': [
        'Unable to negotiate with 127.0.0.1 port 5000: no matching key exchange method found. ' +
          `Their offer: x\n${words} [preauth]`,
      ],
      'a disconnect before the login': [`Received disconnect from 127.0.0.1 port 5000:11: bye\n${words} [preauth]`],
      'a disconnect after failures': [
        `Failed password for ${USER} from 127.0.0.1 port 5000 ssh2`,
        `Received disconnect from 127.0.0.1 port 5000:11: bye\n${words} [preauth]`,
      ],
      'a disconnect after its own login': [
        'Accepted password for other from 127.0.0.1 port 5000 ssh2',
        `Received disconnect from 127.0.0.1 port 5000:11: bye\n${words}`,
      ],
    };
    for (const [way, messages] of Object.entries(ways)) {
      const found = attemptsIn(from(20, ...messages), USER);
      // A client that forges a wrong password could as well send one.
      const believed = texts(found).filter((text) => text !== 'refused 127.0.0.1: wrong password');
      assert.deepEqual(believed, [], `${way}: ${words}`);
      if (words.endsWith('\n')) assert.equal(found.forged, 1, `${way}: ${words}`);
    }
  }
  // Long after its own login, when the number of the process may seem to be used again.
  const late = [
    { at: 0, pid: '7', message: 'Accepted password for other from 127.0.0.1 port 5000 ssh2' },
    { at: 300e6, pid: '7', message: 'Received disconnect from 127.0.0.1 port 5000:11: bye' },
    { at: 300e6, pid: '7', message: accepted },
  ];
  assert.deepEqual(texts(attemptsIn(late, USER)), []);
});

test('the lines of sshd and PAM about failed tries do not hide the login after them', () => {
  const found = attemptsIn(
    from(
      20,
      'userauth_pubkey: signature algorithm ssh-rsa not in PubkeyAcceptedAlgorithms [preauth]',
      `pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=127.0.0.1  user=${USER}`,
      `Failed password for ${USER} from 127.0.0.1 port 5000 ssh2`,
      `Postponed publickey for ${USER} from 127.0.0.1 port 5000 ssh2 [preauth]`,
      `Accepted publickey for ${USER} from 127.0.0.1 port 5000 ssh2: ED25519 ${KEY}`,
      'Received disconnect from 127.0.0.1 port 5000:11: bye',
    ),
    USER,
  );
  assert.deepEqual(texts(found), ['refused 127.0.0.1: wrong password', `login 127.0.0.1: by key ${KEY} (ED25519)`]);
});

test('attempts from one address for any name, and with an unknown name', () => {
  const written = lines(
    [1, 'Server listening on 0.0.0.0 port 2222.'],
    [1, 'drop connection #0 from [192.0.2.1]:52110 on [127.0.0.1]:2222 penalty: failed authentication'],
    [1, 'drop connection #0 from [192.0.2.9]:52110 on [127.0.0.1]:2222 penalty: failed authentication'],
    [10, `Accepted password for ${USER} from 192.0.2.1 port 34210 ssh2`],
    [11, 'Invalid user acme from 192.0.2.1 port 34211'],
    [11, 'Failed password for invalid user acme from 192.0.2.1 port 34211 ssh2'],
    [12, 'Connection closed by 192.0.2.1 port 34212 [preauth]'],
    [13, `Failed password for ${USER} from 192.0.2.2 port 34213 ssh2`],
    // A client that forges what the listener says, and one that forges another's address.
    [14, 'Invalid user x'],
    [14, 'drop connection #0 from [192.0.2.1]:1 on [127.0.0.1]:2222 penalty: forged'],
    [14, ' from 192.0.2.66 port 34214'],
    [15, 'Invalid user acme from 192.0.2.1 port 7 from 192.0.2.66 port 34215'],
  );
  const found = attemptsFrom(written, '192.0.2.1');
  assert.deepEqual(texts(found), [
    'refused 192.0.2.1: connection closed at once: penalty: failed authentication',
    `login 192.0.2.1: ${USER}: by password`,
    'refused 192.0.2.1: there is no user "acme"',
    'refused 192.0.2.1: disconnected without logging in',
  ]);
  assert.deepEqual(texts(attemptsOfUnknown(written, 'acme')), ['refused 192.0.2.1: there is no user "acme"']);
  assert.deepEqual(texts(attemptsOfUnknown(written, USER)), []);
});

test('a process number that is used again is another connection', () => {
  const first = { at: 0, pid: '7', message: `Failed password for ${USER} from 127.0.0.1 port 1000 ssh2` };
  const second = { at: 3600e6, pid: '7', message: `Accepted password for ${USER} from 127.0.0.2 port 2000 ssh2` };
  assert.deepEqual(texts(attemptsIn([first, second], USER)), [
    'refused 127.0.0.1: wrong password',
    'login 127.0.0.2: by password',
  ]);
});

// Each refusal that sshd's log explains has a remedy.

const OPEN = { suspended: 0, expires_at: null, allowed_networks: '[]', auth_mode: 'password' } as const;

test('only a setting that lets nobody in says so', () => {
  const closed = (changes: Partial<Parameters<typeof loginChecks>[0]>, keys = 0) =>
    loginChecks({ ...OPEN, ...changes }, { keys, now: 10 }).flatMap(({ lets }, index) =>
      lets === 'nobody' ? [index] : [],
    );
  assert.deepEqual(closed({}), []);
  assert.deepEqual(closed({ suspended: 1 }), [0]);
  assert.deepEqual([closed({ expires_at: 10 }), closed({ expires_at: 11 })], [[1], []]);
  assert.deepEqual(closed({ allowed_networks: '["10.0.0.0/8"]' }), []);
  assert.deepEqual([closed({ auth_mode: 'public_key' }), closed({ auth_mode: 'public_key' }, 1)], [[4], []]);
  assert.deepEqual(closed({ auth_mode: 'both' }), []);
});

test('a refusal has a remedy by its reason, whatever was right before it', () => {
  const key = 'SHA256:AAAA (ED25519)';
  for (const [refusal, words] of [
    ['wrong password', /new password/],
    [`unknown key ${key}`, /Add this key/],
    ['right password, but suspended', /Resume/],
    [`right key ${key}, but expired`, /later expiry/],
    ['right password, but not from an allowed network', /allowed addresses/],
    ['too many connections', /limit of connections/],
    ['too many tries on one connection', /IdentitiesOnly/],
    ['no password was sent, and no known key', /Check which key/],
    ['the client signs with ssh-rsa, which sshd refuses as too weak: update the client', /update the client/],
  ] as const)
    assert.match(remedyFor(refusal) ?? '', words, refusal);
  assert.equal(remedyFor('right password, but not admitted'), undefined);
});

test('a client that has no algorithm in common with sshd is told apart, with what it offers and a remedy', () => {
  const kinds = ['host key type', 'key exchange method', 'cipher', 'MAC'];
  const refused = kinds.flatMap((kind, index) =>
    lines([
      50 + index,
      `Unable to negotiate with 192.0.2.7 port 60${index}: no matching ${kind} found. Their offer: ssh-rsa,ssh-dss [preauth]`,
    ]),
  );
  const found = texts(attemptsFrom(refused, '192.0.2.7'));
  assert.deepEqual(
    found,
    kinds.map((kind) => `refused 192.0.2.7: no ${kind} in common: the client offers only ssh-rsa,ssh-dss`),
  );
  for (const text of found) assert.match(remedyFor(text) ?? '', /update the client/);
});
