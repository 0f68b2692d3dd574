/** The dashboard of an installation: compiled pages, with the files that they read beside the sources. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { signedIn, visitorOf } from '../support/dashboard.ts';
import { scratch } from '../support/scratch.ts';
import { invited, onDatabase, PASSWORD } from '../support/users.ts';

const PROJECT = fileURLToPath(new URL('../../', import.meta.url));

test('the compiled program serves the pages, their style and script, and knows the common passwords', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on', BERTH_LOG_LEVEL: 'info' });
  const folder = join(files.dir, 'staged');
  mkdirSync(folder);
  for (const part of ['package.json', 'src', 'openssh'])
    cpSync(join(PROJECT, part), join(folder, part), { recursive: true });
  symlinkSync(join(PROJECT, 'node_modules'), join(folder, 'node_modules'));
  execFileSync(process.execPath, [join(PROJECT, 'scripts/lib/compile.ts'), folder]);

  const serve = spawn(process.execPath, [join(folder, 'program/main.js'), 'serve'], {
    env: { PATH: process.env['PATH'], ...files.environment },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(serve, 'exit');
  try {
    let port: number | undefined;
    for await (const line of createInterface(serve.stderr)) {
      port = line.includes('berth serves')
        ? (JSON.parse(line) as { dashboard_port: number }).dashboard_port
        : undefined;
      if (port !== undefined) break;
    }
    assert.ok(port, 'it says where the dashboard is');
    const place = { config: files.config, port };
    const { id } = await onDatabase(place, (database) =>
      createAccount({ database, clock: systemClock() }, { name: 'Acme', plan: 'pro' }),
    );
    using admin = await signedIn(place, id);
    for (const page of ['', '/directories', '/api-keys', '/team', '/account', '/profile', '/profile/second-factor']) {
      const { status, text } = await admin.get(`/dashboard${page}`);
      assert.equal(status, 200, page);
      assert.match(text, /^<!DOCTYPE html>.*<\/html>$/s);
    }
    assert.equal((await admin.get('/dashboard/static/style.css')).headers['content-type'], 'text/css; charset=utf-8');
    assert.equal((await admin.get('/dashboard/static/script.js')).status, 200);
    const { token } = await invited(place, id);
    using nobody = visitorOf(place);
    const link = `/dashboard/link/${token}`;
    const common = await nobody.post(link, { password: 'password1234', repeated: 'password1234' });
    assert.match(common.text, /This password is too common/);
    assert.equal((await nobody.post(link, { password: PASSWORD, repeated: PASSWORD })).status, 303);
  } finally {
    serve.kill();
    await ended;
  }
});
