/** berth-client and berth_webhooks.py judge the same webhooks alike. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { verify, verifyWebhook } from '../../clients/typescript/src/webhooks.ts';
import { standardKey } from '../../src/deliveries/webhooks/signature.ts';

const PYTHON = fileURLToPath(new URL('../../clients/python', import.meta.url));

interface Case {
  readonly title: string;
  readonly body: string;
  readonly headers: Record<string, string>;
  readonly secret: string;
  /** `taken`, or why it is refused. */
  readonly outcome: string;
}

const BODY = '{"event":"file.uploaded","filename":"ünï.csv"}';
const NOW = Math.floor(Date.now() / 1000);
const ID = 'fdde0852-7e73-4ab5-959b-884007b21082';
const STANDARD = 'giY3ZcXKHfnTXGw5A5DhhpXLUE3Ryg/+';
const OLDER = 'giY3ZcXKHfnTXGw5A5DhhpXLUE3Ryg_-';
const OWN = "a text of one's own!";
const KEYS: Record<string, Buffer> = {
  [STANDARD]: Buffer.from(STANDARD, 'base64'),
  [OLDER]: Buffer.from(STANDARD, 'base64'),
  [OWN]: Buffer.from(OWN),
  [`whsec_${STANDARD}`]: Buffer.from(STANDARD, 'base64'),
  'not-32-characters': Buffer.from('not-32-characters'),
  seventeenletters1: Buffer.from('seventeenletters1'),
  eighteenletters123: Buffer.from('eighteenletters123', 'base64'),
  'padded-not+mixed/': Buffer.from('padded-not+mixed/'),
  whsec_: Buffer.from('whsec_'),
};

/** The arguments of `sign` for a valid webhook, with some changes. */
function signed(secret = STANDARD, { timestamp = String(NOW), id = ID } = {}): Record<string, string> {
  const text = `${id}.${timestamp}.${BODY}`;
  const signature = createHmac('sha256', KEYS[secret] ?? '')
    .update(text)
    .digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
}

const NONE = 'no signature fits the secret';
const TIME = 'webhook-timestamp is too far from the clock';
const right = signed();
const signature = right['webhook-signature'] ?? '';
const other = signed(OLDER.replace('g', 'h'))['webhook-signature'] ?? '';

const CASES: readonly Case[] = [
  ...Object.keys(KEYS).map((secret) => ({ title: secret, headers: signed(secret), secret, outcome: 'taken' })),
  {
    title: 'capitals',
    headers: { 'Webhook-Id': ID, 'WEBHOOK-TIMESTAMP': String(NOW), 'Webhook-Signature': signature },
  },
  { title: 'the second of two', headers: { ...right, 'webhook-signature': `${other} ${signature}` } },
  { title: 'the first of two', headers: { ...right, 'webhook-signature': `${signature} ${other}` } },
  { title: 'beside a version to come', headers: { ...right, 'webhook-signature': `v2,x ${signature}` } },
  { title: 'nearly too old', headers: signed(STANDARD, { timestamp: String(NOW - 240) }) },
  { title: 'another secret', headers: { ...right, 'webhook-signature': other }, outcome: NONE },
  {
    title: 'another version',
    headers: { ...right, 'webhook-signature': signature.replace('v1', 'v2') },
    outcome: NONE,
  },
  { title: 'without version', headers: { ...right, 'webhook-signature': signature.slice(3) }, outcome: NONE },
  { title: 'a bit more', headers: { ...right, 'webhook-signature': `${signature}=` }, outcome: NONE },
  { title: 'a bit less', headers: { ...right, 'webhook-signature': signature.slice(0, -1) }, outcome: NONE },
  { title: 'joined by a comma', headers: { ...right, 'webhook-signature': `${other},${signature}` }, outcome: NONE },
  { title: 'another id', headers: { ...right, 'webhook-id': `${ID}0` }, outcome: NONE },
  { title: 'another time', headers: { ...right, 'webhook-timestamp': String(NOW + 1) }, outcome: NONE },
  { title: 'another body', body: `${BODY} `, headers: right, outcome: NONE },
  { title: 'an empty body', body: '', headers: right, outcome: NONE },
  { title: 'too old', headers: signed(STANDARD, { timestamp: String(NOW - 600) }), outcome: TIME },
  { title: 'of the future', headers: signed(STANDARD, { timestamp: String(NOW + 600) }), outcome: TIME },
  ...['soon', 'NaN', 'Infinity', '-1', '0', `${NOW}e0`, `0x${NOW.toString(16)}`, `${NOW}.5`].map((timestamp) => ({
    title: `time ${timestamp}`,
    headers: signed(STANDARD, { timestamp }),
    outcome: TIME,
  })),
  ...Object.keys(right).flatMap((name) => [
    { title: `no ${name}`, headers: { ...right, [name]: '' }, outcome: `${name} is missing` },
    {
      title: `no ${name} at all`,
      headers: Object.fromEntries(Object.entries(right).filter(([key]) => key !== name)),
      outcome: `${name} is missing`,
    },
  ]),
  { title: 'no secret', headers: right, secret: '', outcome: 'the secret is empty' },
].map((given) => ({ body: BODY, secret: STANDARD, outcome: 'taken', ...given }));

test('berth keys its signatures as the clients do', () => {
  for (const [secret, key] of Object.entries(KEYS)) assert.deepEqual(standardKey(secret), key, secret);
});

test('berth-client', () => {
  for (const { title, body, headers, secret, outcome } of CASES) {
    assert.equal(
      judged(() => verifyWebhook(Buffer.from(body), headers, secret)),
      outcome,
      title,
    );
    const fetched = new Headers(Object.entries(headers));
    assert.equal(
      judged(() => verifyWebhook(Buffer.from(body), fetched, secret)),
      outcome,
      `${title}, with fetch's headers`,
    );
  }
});

test('berth_webhooks.py', () => {
  const program = `import json, sys
from berth_webhooks import verify_webhook
for case in json.load(sys.stdin):
    try:
        event = verify_webhook(case["body"].encode(), case["headers"], case["secret"])
        print("taken" if event["event"] == "file.uploaded" else event)
    except Exception as error:
        print(error)`;
  const lines = execFileSync('python3', ['-c', program], {
    cwd: PYTHON,
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' },
    input: JSON.stringify(CASES),
    encoding: 'utf8',
  });
  assert.deepEqual(
    lines
      .trim()
      .split('\n')
      .map((outcome, i) => [CASES[i]?.title, outcome]),
    CASES.map(({ title, outcome }) => [title, outcome]),
  );
});

test('x-service-signature, by both', () => {
  const body = Buffer.from(BODY);
  const header = `sha256=${createHmac('sha256', OLDER).update(BODY).digest('hex')}`;
  const cases = [
    [header, OLDER],
    [header, STANDARD],
    [header.toUpperCase(), OLDER],
    [header.slice(7), OLDER],
    [`${header}0`, OLDER],
    ['', OLDER],
  ] as const;
  const expected = [true, false, false, false, false, false];
  assert.deepEqual(
    cases.map(([given, secret]) => verify(body, given, secret)),
    expected,
  );
  assert.equal(verify(body, undefined, OLDER), false);
  const program = `import json, sys
from berth_webhooks import verify
body, cases = json.load(sys.stdin)
print(json.dumps([verify(body.encode(), *case) for case in cases] + [verify(body.encode(), None, "x")]))`;
  const output = execFileSync('python3', ['-c', program], {
    cwd: PYTHON,
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' },
    input: JSON.stringify([BODY, cases]),
    encoding: 'utf8',
  });
  assert.deepEqual(JSON.parse(output), [...expected, false]);
});

function judged(verified: () => { event: string }): string {
  try {
    return verified().event === 'file.uploaded' ? 'taken' : 'not read';
  } catch (error) {
    return (error as Error).message;
  }
}
