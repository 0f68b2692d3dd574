/** Keys as OpenSSH itself makes and fingerprints them, and what sshd would refuse. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parsePublicKey, whyNoPublicKey } from '../../../src/rules/directories/public-key.ts';
import { scratch } from '../../support/scratch.ts';

function opensshFingerprint(file: string): string | undefined {
  return execFileSync('ssh-keygen', ['-lf', file], { encoding: 'utf8' }).split(' ')[1];
}

function generate(dir: string, type: string, bits?: number): string {
  const file = join(dir, `${type}-${bits ?? ''}`);
  const size = bits === undefined ? [] : ['-b', String(bits)];
  execFileSync('ssh-keygen', ['-q', '-t', type, ...size, '-N', '', '-C', 'anna@desk "two words"', '-f', file]);
  return `${file}.pub`;
}

function wire(...parts: (string | Buffer)[]): Buffer {
  return Buffer.concat(
    parts.flatMap((part) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(Buffer.byteLength(part));
      return [length, Buffer.from(part)];
    }),
  );
}

function lineOf(type: string, blob: Buffer): string {
  return `${type} ${blob.toString('base64')}`;
}

function blobOf(line: string): Buffer {
  return Buffer.from(line.split(' ')[1] ?? '', 'base64');
}

/** The last part of a blob: an ECDSA point, an Ed25519 key. */
function lastPart(blob: Buffer, length: number): Buffer {
  return blob.subarray(blob.length - length);
}

test('keys of every ordinary type are taken, with the fingerprint that ssh-keygen prints', () => {
  using place = scratch();
  const kinds: [string, number?][] = [
    ['rsa', 2048],
    ['rsa', 3072],
    ['ecdsa', 256],
    ['ecdsa', 384],
    ['ecdsa', 521],
    ['ed25519'],
  ];
  for (const [type, bits] of kinds) {
    const file = generate(place.dir, type, bits);
    const text = readFileSync(file, 'utf8');
    const key = parsePublicKey(text);
    assert.equal(key?.fingerprint, opensshFingerprint(file), `${type} ${bits ?? ''}`);
    assert.equal(key?.weakness, undefined);
    assert.equal(key?.line, text.split(' ').slice(0, 2).join(' '), 'the comment and the newline are dropped');
  }
});

test('FIDO keys are taken, with the fingerprint that ssh-keygen prints', () => {
  using place = scratch();
  const ed = lastPart(blobOf(readFileSync(generate(place.dir, 'ed25519'), 'utf8')), 32);
  const point = lastPart(blobOf(readFileSync(generate(place.dir, 'ecdsa', 256), 'utf8')), 65);
  const lines = [
    lineOf('sk-ssh-ed25519@openssh.com', wire('sk-ssh-ed25519@openssh.com', ed, 'ssh:')),
    lineOf(
      'sk-ecdsa-sha2-nistp256@openssh.com',
      wire('sk-ecdsa-sha2-nistp256@openssh.com', 'nistp256', point, 'ssh:berth'),
    ),
  ];
  for (const line of lines) {
    const file = join(place.dir, 'sk.pub');
    writeFileSync(file, `${line} token\n`);
    const [type] = line.split(' ');
    const fingerprint = opensshFingerprint(file);
    assert.deepEqual(parsePublicKey(`${line} token\n`), { type, line, comment: 'token', fingerprint });
  }
});

test('a comment is kept as text that a list can show', () => {
  const line = lineOf('ssh-ed25519', wire('ssh-ed25519', Buffer.alloc(32, 7)));
  const comments = [
    ['', null],
    [' \t', null],
    [' me@here and there ', 'me@here and there'],
    ['é'.repeat(300), 'é'.repeat(255)],
    ['\u{1f511}'.repeat(256), '\u{1f511}'.repeat(255)],
    ['half \ud83d', 'half \ufffd'],
  ] as const;
  for (const [given, kept] of comments) {
    const key = parsePublicKey(`${line} ${given}`);
    assert.deepEqual([key?.line, key?.comment], [line, kept]);
  }
});

test('an RSA key that sshd refuses for its size, or with which anybody could log in, is called weak', () => {
  const modulus = (bytes: number) => Buffer.concat([Buffer.from([0]), Buffer.alloc(bytes, 0xff)]);
  const rsa = (exponent: number[], bytes: number) =>
    parsePublicKey(lineOf('ssh-rsa', wire('ssh-rsa', Buffer.from(exponent), modulus(bytes))))?.weakness;
  assert.deepEqual(rsa([1, 0, 1], 255), ['short_key', 2040, 2048]);
  assert.deepEqual(rsa([1, 0, 1], 128), ['short_key', 1024, 2048]);
  for (const exponent of [[1], [2], [1, 0, 0]]) assert.deepEqual(rsa(exponent, 256), ['weak_exponent']);
  for (const exponent of [[3], [1, 0, 1]]) assert.equal(rsa(exponent, 256), undefined);
});

test('keys that sshd would refuse are refused', () => {
  using place = scratch();
  const ed = readFileSync(generate(place.dir, 'ed25519'), 'utf8').trim();
  const edBlob = blobOf(ed);
  const ec = blobOf(readFileSync(generate(place.dir, 'ecdsa', 256), 'utf8'));
  const rsa = blobOf(readFileSync(generate(place.dir, 'rsa', 2048), 'utf8'));
  const point = lastPart(ec, 65);
  const offCurve = Buffer.from(point);
  offCurve[64] = (offCurve[64] ?? 0) ^ 1;
  const compressed = Buffer.concat([Buffer.from([2]), point.subarray(1, 33)]);
  const sk = 'sk-ssh-ed25519@openssh.com';
  const skEc = 'sk-ecdsa-sha2-nistp256@openssh.com';
  const curve = 'ecdsa-sha2-nistp256';
  const exponent = Buffer.from([1, 0, 1]);
  const refused: Record<string, string> = {
    nothing: '',
    prose: 'my key',
    'a private key': readFileSync(join(place.dir, 'ed25519-'), 'utf8'),
    options: `command="id" ${ed}`,
    'an option without a value': `no-pty ${ed}`,
    'two keys': `${ed}\n${ed}`,
    'a second line': `${ed}\nno-pty`,
    'a carriage return within': `${ed}\rx`,
    NUL: `${ed}\0`,
    'another type in front': ed.replace('ssh-ed25519', 'ssh-rsa'),
    'base64 cut short': ed.split(' ').slice(0, 2).join(' ').slice(0, -4),
    'base64 with blanks': ed.replace('AAAAC3', 'AAAA C3'),
    'bytes left over': lineOf('ssh-ed25519', Buffer.concat([edBlob, Buffer.from([0])])),
    'a string left over': lineOf('ssh-ed25519', Buffer.concat([edBlob, wire('more')])),
    'a short Ed25519 key': lineOf('ssh-ed25519', wire('ssh-ed25519', edBlob.subarray(-31))),
    DSA: lineOf('ssh-dss', wire('ssh-dss', ...[128, 20, 128, 128].map((n) => Buffer.alloc(n, 0x55)))),
    'RSA of 16392 bits': lineOf(
      'ssh-rsa',
      wire('ssh-rsa', exponent, Buffer.concat([Buffer.from([0]), Buffer.alloc(2049, 0xff)])),
    ),
    'a negative modulus': lineOf('ssh-rsa', wire('ssh-rsa', exponent, rsa.subarray(-256))),
    'a point off the curve': lineOf(curve, wire(curve, 'nistp256', offCurve)),
    'a compressed point': lineOf(curve, wire(curve, 'nistp256', compressed)),
    'another curve': lineOf(curve, wire(curve, 'nistp384', point)),
    'a certificate': lineOf(
      'ssh-ed25519-cert-v01@openssh.com',
      wire('ssh-ed25519-cert-v01@openssh.com', 'nonce', edBlob),
    ),
    'a FIDO key without application': lineOf(sk, wire(sk, edBlob.subarray(-32))),
    'a FIDO application with NUL': lineOf(sk, wire(sk, edBlob.subarray(-32), 'ssh:\0')),
    'a short FIDO key': lineOf(sk, wire(sk, edBlob.subarray(-31), 'ssh:')),
    'a FIDO point off the curve': lineOf(skEc, wire(skEc, 'nistp256', offCurve, 'ssh:')),
    'a FIDO key with a string left over': lineOf(sk, wire(sk, edBlob.subarray(-32), 'ssh:', 'x')),
  };
  for (const [what, text] of Object.entries(refused)) assert.equal(parsePublicKey(text), undefined, what);
});

test('the file that PuTTYgen saves (RFC 4716) is the key in it', () => {
  using place = scratch();
  for (const [type, bits] of [['rsa', 2048], ['ecdsa', 521], ['ed25519']] as const) {
    const file = generate(place.dir, type, bits);
    const line = readFileSync(file, 'utf8');
    const expected = parsePublicKey(line);
    const exported = execFileSync('ssh-keygen', ['-e', '-f', file], { encoding: 'utf8' });
    const key = parsePublicKey(exported);
    assert.deepEqual([key?.line, key?.fingerprint], [expected?.line, expected?.fingerprint], exported);
    assert.match(key?.comment ?? '', /^\S.*converted by/);
    // As PuTTYgen writes it on Windows, with a header that goes on in the next line.
    const [begin, , ...content] = exported.split('\n');
    const windows = [begin, 'Comment: "rsa-key-\\', '20261125"', 'x-more: 1', ...content].join('\r\n');
    assert.deepEqual(parsePublicKey(windows), { ...expected, comment: 'rsa-key-20261125' });
    const noComment = parsePublicKey([begin, ...content].join('\n'));
    assert.deepEqual(noComment, { ...expected, comment: null });
    for (const broken of [
      exported.replace('AAAA', 'AAAB'),
      exported.replace(/---- END.*/, ''),
      `command="x" ${exported}`,
      exported.replace('\nComment', '\nAAAA\nComment'),
      `${exported}${line}`,
    ])
      assert.equal(parsePublicKey(broken), undefined, broken);
  }
});

test('the longest possible text is refused at once, whatever it repeats', () => {
  const spaces = ' '.repeat(64_000);
  const file = (comment: string): string =>
    `---- BEGIN SSH2 PUBLIC KEY ----\ncomment:${comment}\n---- END SSH2 PUBLIC KEY ----`;
  for (const hostile of [
    `ssh-rsa AAAA${spaces}\nx`,
    `ssh-rsa${spaces}\nx`,
    file(`${spaces}x\u2028x`),
    file('"'.repeat(64_000)),
  ]) {
    const before = process.cpuUsage();
    assert.equal(parsePublicKey(hostile), undefined);
    const { user, system } = process.cpuUsage(before);
    assert.ok(user + system < 100_000, `${hostile.slice(0, 40)}: ${user + system} µs`);
  }
});

test('what is no public key is named by its kind, and nothing of it is repeated', () => {
  using place = scratch();
  const secret = (text: string): string[] => text.match(/[\w+/=]{16,}/g) ?? [];
  const file = join(place.dir, 'key');
  const make = (...more: string[]): string => {
    execFileSync('rm', ['-f', file, `${file}.pub`]);
    execFileSync('ssh-keygen', ['-q', '-t', 'rsa', '-b', '2048', '-N', '', '-f', file, ...more]);
    return readFileSync(file, 'utf8');
  };
  const convert = (form: string): string =>
    execFileSync('ssh-keygen', ['-e', '-m', form, '-f', `${file}.pub`], { encoding: 'utf8' });
  const cases: [string, RegExp][] = [
    [make(), /it is a private key, which berth has not stored/],
    [make('-m', 'PEM'), /it is a private key/],
    [convert('PKCS8'), /it is a PEM file\. ssh-keygen -i -m PKCS8/],
    [convert('PEM'), /it is a PEM file/],
    [
      '-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBa\n-----END CERTIFICATE-----',
      /X\.509 certificate/,
    ],
    [
      `PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\nAAAAIGu2l0u7Kp6Yv0Zk0Zk0Zk0Zk0Zk\n`,
      /\.ppk file with a private key/,
    ],
    [`ssh-ed25519-cert-v01@openssh.com AAAAIHNzaC1lZDI1NTE5LWNlcnQtdjAxQG9wZW5zc2guY29t`, /OpenSSH certificate/],
    ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA\nIGu2l0u7Kp6Yv0Zk0Zk0Zk0Zk0Zk', /several lines/],
    ['c2VjcmV0IHNlY3JldCBzZWNyZXQ=', /one line such as ssh-ed25519 AAAA/],
  ];
  for (const [text, reason] of cases) {
    assert.equal(parsePublicKey(text), undefined);
    const why = whyNoPublicKey(text);
    assert.match(why, /^it /);
    assert.match(why, reason);
    const example = 'AAAAC3NzaC1lZDI1NTE5AAAA';
    assert.deepEqual(
      secret(text).filter((part) => part !== example && why.includes(part)),
      [],
    );
  }
});
