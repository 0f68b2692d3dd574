/** GET /docs: the reference for browsers, from the package's own files, in a real browser. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { request } from 'node:https';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { chromium } from '../support/chromium.ts';
import { type Api, sharedHosted } from '../support/hosted.ts';
import { document } from '../support/openapi.ts';

const shared = sharedHosted();

const PAGE = '//docs';
const open = { authorization: null };

test('the page needs no key, loads only its own files, by relative addresses, and allows nothing inline', async () => {
  const api = await shared();
  const page = await api.send('GET', PAGE, open);
  assert.deepEqual([page.status, page.headers['content-type']], [200, 'text/html; charset=utf-8']);
  const policy = String(page.headers['content-security-policy']);
  assert.match(policy, /^default-src 'none'; /);
  assert.doesNotMatch(policy, /unsafe|https?:|\*/);
  assert.equal(page.headers['x-content-type-options'], 'nosniff');
  const addresses = [...page.text.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, address = '']) => address);
  assert.deepEqual(addresses, ['data:,', 'docs/swagger-ui.css', 'docs/swagger-ui-bundle.js', 'docs/start.js']);
  assert.doesNotMatch(page.text, /<style|<script>| on\w+=| style=/);
  for (const address of addresses.slice(1)) {
    const file = await api.send('GET', `//${address}`, open);
    assert.equal(file.status, 200, address);
    assert.equal(Number(file.headers['content-length']), Buffer.byteLength(file.text), address);
    const head = await api.send('HEAD', `//${address}`, open);
    assert.deepEqual([head.status, head.text], [200, ''], address);
  }
  const slash = await api.send('GET', '//docs/', open);
  assert.deepEqual([slash.status, slash.headers.location], [301, '../docs']);
  for (const path of ['//docs/package.json', '//docs/..%2fpackage.json', '//docs/swagger-ui.js']) {
    assert.equal((await api.send('GET', path, open)).status, 404, path);
  }
  assert.equal((await api.send('POST', PAGE, open)).status, 405);
});

test('a browser shows every operation behind a proxy with a prefix, without an error', async () => {
  const api = await shared();
  const { place } = api;
  await using proxy = await prefixed(api);
  const options = [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-dev-shm-usage',
    `--user-data-dir=${place.dir}/browser`,
    '--enable-logging=stderr',
    '--virtual-time-budget=30000',
    '--dump-dom',
  ];
  const url = `http://127.0.0.1:${proxy.port}${PREFIX}/docs`;
  const { stdout: page, stderr } = await run(chromium(), [...options, url], { timeout: 100_000, maxBuffer: 2 ** 26 });
  const missing = Object.values(document.paths)
    .flatMap((methods) => Object.values(methods))
    .filter(({ tags: [tag], operationId }) => !page.includes(`id="operations-${tag}-${operationId}"`));
  assert.deepEqual(missing, [], stderr);
  for (const { post } of Object.values(document.components.pathItems))
    assert.ok(page.includes(`>${post.summary}<`), post.summary);
  assert.deepEqual(stderr.match(/^.*CONSOLE.*$/gm) ?? [], []);
  assert.deepEqual(
    proxy.asked.filter((path) => !path.startsWith(PREFIX)),
    [],
  );
});

const PREFIX = '/some/prefix';
const run = promisify(execFile);

/** A proxy that ends TLS, with the API below a prefix. `asked` are the paths that the browser asked for. */
async function prefixed({ port, ca }: Api) {
  const asked: string[] = [];
  const server = createServer((incoming, outgoing) => {
    const { url = '', headers } = incoming;
    asked.push(url);
    const path = url.replace(PREFIX, '');
    const passed = request(
      { host: '127.0.0.1', port, ca, path, headers: { ...headers, host: 'localhost' } },
      (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(outgoing);
      },
    );
    passed.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    asked,
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
