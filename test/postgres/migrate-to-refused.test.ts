/** `berth migrate-to` refuses data that it cannot copy completely, in one line without the password. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import Sqlite from 'better-sqlite3';
import { lockInstance } from '../../src/foundation/db/instance-lock.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { newAccount } from '../support/directory-rows.ts';
import { postgresOnly, psql, urlOf } from '../support/postgres.ts';
import { CHILD, fill, isEmpty, moving } from './moving.ts';

test('each obstacle is reported in one line, and nothing has changed', postgresOnly, async (t) => {
  using it = moving();
  await fill(it);
  const { config, environment } = it.place;
  const settings = readFileSync(it.settings, 'utf8');
  const refused = async (what: RegExp, ...args: readonly string[]): Promise<void> => {
    const { status, stderr } = await it.migrate(...args);
    assert.equal(status, 1, stderr);
    assert.match(stderr.split('\n').at(-2) ?? '', what);
    assert.doesNotMatch(stderr, /hunter2/);
    assert.equal(readFileSync(it.settings, 'utf8'), settings);
    assert.equal(existsSync(config.databaseFile), true);
  };
  const secret = it.to.url.replace('postgres@', 'postgres:hunter2@');

  await t.test('a running berth serve', async () => {
    using _lock = lockInstance(join(config.stateDir, 'serve.lock'));
    await refused(/berth serve runs: stop it first/, secret);
  });
  await t.test('another process that uses the file', async () => {
    const other = new Sqlite(config.databaseFile);
    other.prepare('select count(*) from accounts').get();
    await refused(/another process uses .*berth\.db/, secret);
    other.close();
  });
  await t.test('no such server', () => refused(/cannot be reached/, 'postgres://u:hunter2@127.0.0.1:1/x'));
  await t.test('no such database', () => refused(/cannot be used: .*create database/, urlOf('nowhere')));
  await t.test('a URL of another scheme', () => refused(/must be postgres:/, 'mysql://u:hunter2@h/x'));
  await t.test('several servers', () => refused(/one PostgreSQL server/, 'postgres://u:hunter2@a,b/x'));
  await t.test('a URL that the settings cannot hold', () => refused(/%20/, 'postgres://u:hunter2 @h/x'));
  await t.test('tables of another program', async () => {
    psql(it.to.url, 'create table invoices (id int)');
    await refused(/not empty: it has tables of another program \(invoices\)/, secret);
    psql(it.to.url, 'drop table invoices');
  });
  await t.test('rows of another berth', async () => {
    using other = moving();
    const { db, close } = await openDatabase(other.to.url);
    await newAccount(db);
    await close();
    await refused(/not empty: accounts have rows/, other.to.url);
  });
  await t.test('text with a NUL, which is named', async () => {
    const sqlite = new Sqlite(config.databaseFile);
    sqlite.prepare("update directories set description = 'a' || char(0) where slug = 's3'").run();
    const { id } = sqlite.prepare("select id from directories where slug = 's3'").get() as { id: string };
    sqlite.close();
    await refused(new RegExp(`cannot store a NUL: description in directories has one, in the row ${id}`), secret);
    assert.equal(await isEmpty(it.to.url), true);
  });
  await t.test('an outdated copy of an earlier run', async () => {
    const sqlite = new Sqlite(config.databaseFile);
    sqlite.prepare('update directories set description = null').run();
    sqlite.close();
    const killed = spawnSync(process.execPath, [CHILD, '^commit', it.to.url, it.settings], {
      env: { ...process.env, ...environment },
    });
    assert.equal(killed.signal, 'SIGKILL');
    const { db, close } = await openDatabase(config.databaseFile);
    await newAccount(db);
    await close();
    await refused(
      /has an earlier copy, and one of the two has changed since \(accounts, rows: 1 instead of 2\)/,
      secret,
    );
  });
});
