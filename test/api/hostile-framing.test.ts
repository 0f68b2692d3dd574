/**
 * Request smuggling: berth refuses every request whose end two readers could see in different places, and closes the
 * connection.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fc } from '../support/fast-check.ts';
import { type Api, sharedHosted } from '../support/hosted.ts';
import { answersIn, rawConnection, rawExchange } from '../support/raw-http.ts';

const shared = sharedHosted();

const HOST = 'Host: localhost\r\n';
const BODY = '{"directory":{"name":""}}';
const CHUNKED = `19\r\n${BODY}\r\n0\r\n\r\n`;
/** What an attacker would hide behind a request. */
const HIDDEN = `GET /healthz HTTP/1.1\r\n${HOST}\r\n`;

const get = (api: Api, headers = '', version = 'HTTP/1.1'): string =>
  `GET /api/v1/directories ${version}\r\n${HOST}Authorization: Bearer ${api.tenant.key}\r\n${headers}\r\n`;
const post = (api: Api, headers: string, body: string, version = 'HTTP/1.1'): string =>
  `POST /api/v1/directories ${version}\r\n${HOST}Authorization: Bearer ${api.tenant.key}\r\n` +
  `Content-Type: application/json\r\n${headers}\r\n${body}`;

async function isRefused(api: Api, requests: Record<string, string>, status = 400): Promise<void> {
  await Promise.all(
    Object.entries(requests).map(async ([name, bytes]) => {
      const { answers, isEnded } = await rawExchange(api, bytes);
      assert.deepEqual([answers.map((answer) => answer.status), isEnded], [[status], true], name);
      assert.match(answers[0]?.body ?? '', /^\{"error":"[^"]+"\}$/, name);
    }),
  );
}

test('400: two lengths, or a length that is not written in digits', async () => {
  const api = await shared();
  const lengths = {
    'the same twice': 'Content-Length: 25\r\nContent-Length: 25\r\n',
    'two that differ': 'Content-Length: 25\r\nContent-Length: 0\r\n',
    'a list': 'Content-Length: 25, 25\r\n',
    'a sign': 'Content-Length: +25\r\n',
    negative: 'Content-Length: -25\r\n',
    hexadecimal: 'Content-Length: 0x19\r\n',
    nothing: 'Content-Length: \r\n',
    blanks: 'Content-Length: 2 5\r\n',
    'past any integer': 'Content-Length: 99999999999999999999999\r\n',
    'a blank before the colon': 'Content-Length : 25\r\n',
    'CL.TE': 'Content-Length: 4\r\nTransfer-Encoding: chunked\r\n',
    'TE.CL': 'Transfer-Encoding: chunked\r\nContent-Length: 4\r\n',
  };
  await isRefused(
    api,
    Object.fromEntries(
      Object.entries(lengths).map(([name, headers]) => [
        name,
        post(api, headers, `${/TE/.test(name) ? CHUNKED : BODY}${HIDDEN}`),
      ]),
    ),
  );
});

test('400: any transfer coding but "chunked", once, under its own name', async () => {
  const api = await shared();
  const codings = [
    ': xchunked',
    ': identity',
    ': chunked, identity',
    ': identity, chunked',
    ': gzip, chunked',
    ': chunked, chunked',
    ': chunked\r\nTransfer-Encoding: identity',
    ': chunked\r\nTransfer-Encoding: chunked',
    ': "chunked"',
    ': chunked;q=1',
    ': \x0bchunked',
    ': chun\0ked',
    ':',
    ' : chunked',
    ':\r\n chunked',
    '\x0b: chunked',
  ];
  await isRefused(
    api,
    Object.fromEntries(codings.map((coding) => [coding, post(api, `Transfer-Encoding${coding}\r\n`, CHUNKED)])),
  );
  await isRefused(api, { 'HTTP/1.0': post(api, 'Transfer-Encoding: chunked\r\n', CHUNKED, 'HTTP/1.0') });
  for (const coding of ['transfer-encoding: CHUNKED', 'Transfer-Encoding:\tchunked ']) {
    const { answers } = await rawExchange(api, post(api, `${coding}\r\nConnection: close\r\n`, CHUNKED));
    assert.deepEqual(
      answers.map(({ status }) => status),
      [422],
      coding,
    );
  }
});

test('400: chunks that violate RFC 9112 or are too long', async () => {
  const api = await shared();
  const bodies = {
    'line feeds alone': `19\n${BODY}\n0\n\n`,
    'a line feed after the data': `19\r\n${BODY}\n0\r\n\r\n`,
    '0x': `0x19\r\n${BODY}\r\n0\r\n\r\n`,
    negative: `-19\r\n${BODY}\r\n0\r\n\r\n`,
    'past 64 bits': `10000000000000019\r\n${BODY}\r\n0\r\n\r\n`,
    'a blank after the size': `19 \r\n${BODY}\r\n0\r\n\r\n`,
    'too short a size': `10\r\n${BODY}\r\n0\r\n\r\n`,
    'a line feed in an extension': `19;a=\nb\r\n${BODY}\r\n0\r\n\r\n`,
    'a carriage return in an extension': `19;a=\rb\r\n${BODY}\r\n0\r\n\r\n`,
    'a length in the trailer': `19\r\n${BODY}\r\n0\r\nContent-Length: 5\r\n\r\n`,
    'a coding in the trailer': `19\r\n${BODY}\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n${HIDDEN}`,
  };
  const chunked = (body: string): string => post(api, 'Transfer-Encoding: chunked\r\n', body);
  await isRefused(api, Object.fromEntries(Object.entries(bodies).map(([name, body]) => [name, chunked(body)])));
  await isRefused(api, { extension: chunked(`19;${'x'.repeat(20_000)}\r\n${BODY}\r\n0\r\n\r\n`) }, 413);
  await isRefused(api, { trailer: chunked(`19\r\n${BODY}\r\n0\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`) }, 431);
});

test('400: lines, headers and targets that violate RFC 9112', async () => {
  const api = await shared();
  const line = (target: string, method = 'GET'): string => `${method} ${target} HTTP/1.1\r\n${HOST}\r\n`;
  await isRefused(api, {
    'a folded header': get(api, 'X: a\r\n b\r\n'),
    'a fold before any header': `GET /healthz HTTP/1.1\r\n Host: localhost\r\n\r\n`,
    'line feeds alone': 'GET /healthz HTTP/1.1\nHost: localhost\n\n',
    'a line feed in the headers': get(api, 'X: a\nY: b\r\n'),
    'a carriage return in a header': get(api, 'X: a\rY: b\r\n'),
    'two carriage returns': get(api, 'X: a\r\r\n'),
    'NUL in a value': get(api, 'X: a\0b\r\n'),
    'NUL in a name': get(api, 'X\0: ab\r\n'),
    'an escape': get(api, 'X: \u001b[31m\r\n'),
    'no name': get(api, ': ab\r\n'),
    'no colon': get(api, 'abc\r\n'),
    'two hosts': get(api, HOST),
    ...Object.fromEntries(
      ['1.2.3.4.5', '999.999.999.999', 'xn--', 'a b', '[', 'x:99999', ''].map((host) => [
        `the host "${host}"`,
        get(api).replace('localhost', host).replace('/directories', '/openapi.json'),
      ]),
    ),
    'two keys': get(api, 'Authorization: Bearer x\r\n'),
    'two content types': post(api, 'Content-Type: text/plain\r\nContent-Length: 25\r\n', BODY),
    nonsense: 'nonsense\r\n\r\n',
    'no host': 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n',
    'HTTP/0.9': 'GET /healthz\r\n\r\n',
    'HTTP/0.9 with its version': get(api, '', 'HTTP/0.9'),
    'HTTP/1.2': get(api, '', 'HTTP/1.2'),
    'http/1.1': get(api, '', 'http/1.1'),
    'HTTP/2 in clear': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'tabs between words': `GET\t/healthz\tHTTP/1.1\r\n${HOST}\r\n`,
    'another host in the target': line('https://other.example/healthz'),
    'credentials in the target': line('https://a@localhost/healthz'),
    'another scheme': line('ftp://localhost/healthz'),
    'a host as target': line('localhost'),
    'an asterisk': line('*', 'OPTIONS'),
    'a fragment': line('/healthz#x'),
    'bytes above ASCII in the target': line('/api/v1/directories/\u00e9'),
    'a tunnel': line('localhost:443', 'CONNECT') + HIDDEN,
  });
  await isRefused(api, { target: line(`/${'x'.repeat(20_000)}`), headers: get(api, 'a: b\r\n'.repeat(150)) }, 431);
  await isRefused(api, { expectation: get(api, 'Expect: the-unexpected\r\nConnection: close\r\n') }, 417);
  await isRefused(api, { 'HTTP/2.0': get(api, '', 'HTTP/2.0') }, 505);
  const own = await rawExchange(api, line('https://LOCALHOST/healthz').replace(HOST, `${HOST}Connection: close\r\n`));
  assert.equal(own.answers[0]?.status, 200, 'the absolute form itself is HTTP');
});

test('pipelined requests are answered in order, each by its own key; a body is never a request', async () => {
  const api = await shared();
  const anonymous = `GET /api/v1/directories HTTP/1.1\r\n${HOST}\r\n`;
  const length = `Content-Length: ${HIDDEN.length}\r\n`;
  const pipelined = await rawExchange(
    api,
    HIDDEN +
      get(api) +
      anonymous +
      `POST /api/v1/directories HTTP/1.1\r\n${HOST}${length}\r\n${HIDDEN}` +
      `GET /api/v1/directories HTTP/1.1\r\n${HOST}${length}\r\n${HIDDEN}` +
      get(api, 'Connection: close\r\n') +
      HIDDEN,
  );
  assert.deepEqual(
    pipelined.answers.map(({ status }) => status),
    [200, 200, 401, 401, 401, 200],
  );
  assert.ok(pipelined.isEnded, 'nothing follows "close"');
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
  const { answers, isEnded } = await rawExchange(api, get(api, upgrade) + HIDDEN);
  assert.deepEqual([answers.map(({ status }) => status), isEnded], [[200], true]);
  assert.deepEqual(api.errors(), []);
});

test('random bytes in requests: each answer is whole, and none is a 500', async () => {
  const api = await shared();
  const seeds = [get(api), HIDDEN, post(api, 'Transfer-Encoding: chunked\r\n', CHUNKED)];
  const bytes = fc.constantFrom(
    '\r',
    '\n',
    '\0',
    ' ',
    '\t',
    ':',
    ',',
    '/',
    '%',
    '\u007f',
    '\u00ff',
    'HTTP/1.1',
    '0\r\n\r\n',
  );
  const spoilt = fc.record({
    seed: fc.constantFrom(...seeds),
    changes: fc.array(fc.record({ at: fc.nat(400), drop: fc.nat(3), put: bytes }), { minLength: 1, maxLength: 4 }),
  });
  const exchange = async ({
    seed,
    changes,
  }: {
    seed: string;
    changes: { at: number; drop: number; put: string }[];
  }) => {
    let request = seed;
    for (const { at, drop, put } of changes) {
      const spot = at % request.length;
      request = request.slice(0, spot) + put + request.slice(spot + drop);
    }
    using connection = await rawConnection(api);
    connection.write(request);
    connection.socket.end();
    await connection.ended;
    for (const { status, body } of answersIn(connection.received())) {
      assert.ok(
        (status < 500 || status === 505) && (body === '' || /^\{"(data|error|errors|status)":/.test(body)),
        request,
      );
    }
  };
  await fc.assert(
    fc.asyncProperty(fc.array(spoilt, { minLength: 8, maxLength: 8 }), async (cases) => {
      await Promise.all(cases.map(exchange));
    }),
    { numRuns: 40 },
  );
  assert.deepEqual(api.errors(), []);
});
