/** `berth user …` as an operator runs it, without a service and beside one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBerth } from '../support/berth.ts';
import { runHere } from '../support/command-line.ts';
import { visitorOf } from '../support/dashboard.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { onDatabase, PASSWORD } from '../support/users.ts';

type Json = Record<string, unknown>;

const berth = (place: Pick<Scratch, 'environment'>, ...args: string[]) => runHere(place.environment, ...args);

async function json<T = Json>(place: Pick<Scratch, 'environment'>, ...args: string[]): Promise<T> {
  const { status, stdout, stderr } = await berth(place, ...args, '--json');
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout) as T;
}

async function accountIn(place: Scratch): Promise<string> {
  return String((await json(place, 'account', 'create', 'Acme', '--plan', 'free'))['id']);
}

test('every command prints its exact JSON, and the audit has who did it', async () => {
  using place = scratch({ BERTH_SFTP_HOST: 'files.example.com', BERTH_API_PORT: '8443', SUDO_USER: 'olga' });
  const account = await accountIn(place);
  const created = await json(place, 'user', 'create', 'Ann@Example.com', '--account', account, '--role', 'member');
  assert.deepEqual(Object.keys(created), ['id', 'email', 'link']);
  assert.equal(created['email'], 'ann@example.com');
  assert.match(String(created['link']), /^https:\/\/files\.example\.com:8443\/dashboard\/link\/[\w-]{43}$/);

  const [row = {}] = await json<Json[]>(place, 'user', 'list', '--account', account);
  assert.deepEqual(
    { ...row, inserted_at: typeof row['inserted_at'] },
    {
      id: created['id'],
      account_id: account,
      email: 'ann@example.com',
      role: 'member',
      state: 'invited',
      second_factor: false,
      read_only: false,
      directories: null,
      inserted_at: 'string',
      signed_in_at: null,
      disabled_at: null,
    },
  );
  assert.equal((await json(place, 'user', 'set-role', 'ann@example.com', 'admin'))['role'], 'admin');
  const limited = ['user', 'set-limits', 'ann@example.com'];
  assert.equal((await json(place, ...limited, '--read-only'))['read_only'], true);
  const { stdout: said } = await berth(place, 'user', 'set-role', 'ann@example.com', 'admin');
  assert.equal(said, 'ann@example.com is invited, with the role admin (read-only)\n');
  assert.equal((await json(place, ...limited, '--none'))['read_only'], false);
  assert.equal((await json(place, 'user', 'disable', 'ANN@example.com'))['state'], 'disabled');
  assert.equal((await json(place, 'user', 'enable', 'ann@example.com'))['state'], 'invited');
  const reset = await json(place, 'user', 'reset', 'ann@example.com');
  assert.deepEqual([reset['id'], reset['email']], [created['id'], 'ann@example.com']);
  assert.notEqual(reset['link'], created['link']);

  const rows = await onDatabase(place, ({ reads }) => reads.selectFrom('audit').selectAll().orderBy('id').execute());
  assert.deepEqual(
    rows.map(({ action, key_id, route }) => [action, key_id, route]),
    [
      ['create-user', 'operator:olga', 'berth user create'],
      ['update-user', 'operator:olga', 'berth user set-role'],
      ['update-user', 'operator:olga', 'berth user set-limits'],
      ['update-user', 'operator:olga', 'berth user set-limits'],
      ['update-user', 'operator:olga', 'berth user disable'],
      ['update-user', 'operator:olga', 'berth user enable'],
      ['update-user', 'operator:olga', 'berth user reset'],
    ],
  );
  const [token = ''] = String(reset['link']).split('/').slice(-1);
  assert.ok(!JSON.stringify(rows).includes(token));
});

test('people get a table, and the link with what it is for; the address is that of the settings', async () => {
  using place = scratch({ BERTH_SFTP_HOST: 'files.example.com', BERTH_DASHBOARD: 'on', BERTH_DASHBOARD_PORT: '443' });
  const account = await accountIn(place);
  const create = ['user', 'create', 'ann@example.com', '--account', account, '--role', 'admin'];
  const { stdout, stderr } = await berth(place, ...create);
  assert.match(
    stdout,
    /^https:\/\/files\.example\.com\/dashboard\/link\/[\w-]{43}\nann@example\.com can set a password/,
  );
  assert.equal(stderr, '');
  const list = (await berth(place, 'user', 'list')).stdout;
  assert.match(
    list,
    /^EMAIL +ROLE +STATE +2ND FACTOR +CREATED +SIGNED IN +LIMITS +ACCOUNT\nann@example\.com +admin +invited +no /,
  );

  const proxied = { environment: { ...place.environment, BERTH_TLS: 'proxy', BERTH_DASHBOARD: 'off' } };
  const reset = await berth(proxied, 'user', 'reset', 'ann@example.com');
  assert.match(reset.stdout, /^https:\/\/files\.example\.com\/dashboard\/link\//);
  assert.match(reset.stderr, /^berth: the dashboard is off \(BERTH_DASHBOARD\)[^\n]*\n$/);
});

test('a new link for a disabled user comes with a warning that it does not work yet', async () => {
  using place = scratch({ BERTH_DASHBOARD: 'on' });
  const account = await accountIn(place);
  await json(place, 'user', 'create', 'ann@example.com', '--account', account, '--role', 'admin');
  await json(place, 'user', 'disable', 'ann@example.com');
  const reset = await berth(place, 'user', 'reset', 'Ann@example.com');
  assert.equal(
    reset.stderr,
    'berth: ann@example.com is disabled: the link works after berth user enable ann@example.com\n',
  );
  await json(place, 'user', 'enable', 'ann@example.com');
  assert.equal((await berth(place, 'user', 'reset', 'ann@example.com')).stderr, '');
});

test('an impossible request is one line with status 1, wrong use has status 2', async () => {
  using place = scratch();
  const account = await accountIn(place);
  const create = (email: string, id = account) => ['user', 'create', email, '--account', id, '--role', 'admin'];
  await json(place, ...create('ann@example.com'));
  const failures: readonly (readonly [string[], RegExp])[] = [
    [create('ANN@example.com'), /email has already been taken/],
    [create('no address'), /email is invalid/],
    [create('<script>@example.com'), /email is invalid/],
    [create('ann@example.com\u202e'), /email is invalid/],
    [create(`${'x'.repeat(250)}@example.com`), /email should be at most 254/],
    [create(' '), /email can't be blank/],
    [create('bob@example.com', 'nobody'), /there is no account "nobody"/],
    [['user', 'list', '--account', 'nobody'], /there is no account "nobody"/],
    [['user', 'reset', 'nobody@example.com'], /there is no user "nobody@example\.com": see berth user list/],
    [['user', 'disable', 'nobody@example.com'], /there is no user/],
    [['user', 'set-role', 'nobody@example.com', 'admin'], /there is no user/],
    [['user', 'set-limits', 'ann@example.com'], /say which limits: --read-only, --directory, or --none/],
    [['user', 'set-limits', 'ann@example.com', '--none', '--read-only'], /say which limits/],
    [['user', 'set-limits', 'ann@example.com', '--directory', 'nowhere'], /"nowhere" is not a directory/],
  ];
  await Promise.all(
    failures.map(async ([args, message]) => {
      const { status, stdout, stderr } = await berth(place, ...args);
      assert.deepEqual([status, stdout], [1, ''], args.join(' '));
      assert.match(stderr, /^berth: [^\n]+\n$/);
      assert.match(stderr, message);
    }),
  );
  const misuses = [
    ['user', 'create', 'bob@example.com', '--account', account],
    ['user', 'create', 'bob@example.com', '--role', 'admin'],
    ['user', 'create', 'bob@example.com', '--account', account, '--role', 'owner'],
    ['user', 'set-role', 'ann@example.com'],
    ['user', 'reset'],
  ];
  await Promise.all(misuses.map(async (args) => assert.equal((await berth(place, ...args)).status, 2, args.join(' '))));
  await Promise.all(
    ['create', 'list', 'set-role', 'set-limits', 'disable', 'enable', 'reset'].map(async (step) =>
      assert.match((await berth(place, 'user', step, '--help')).stdout, /Examples?:\n {2}berth user /),
    ),
  );
  assert.equal((await json<Json[]>(place, 'user', 'list')).length, 1);
});

test('reset removes a lost second factor with its option, and only then', async () => {
  using place = scratch();
  const account = await accountIn(place);
  const { id } = await json(place, 'user', 'create', 'ann@example.com', '--account', account, '--role', 'admin');
  await onDatabase(place, async ({ db }) => {
    await db.updateTable('users').set({ totp_secret: 'JBSWY3DPEHPK3PXP' }).execute();
    await db
      .insertInto('recovery_codes')
      .values({ user_id: String(id), hash: 'x' })
      .execute();
  });
  const factor = async () => (await json<Json[]>(place, 'user', 'list'))[0]?.['second_factor'];
  await json(place, 'user', 'reset', 'ann@example.com');
  assert.equal(await factor(), true);
  const { link } = await json(place, 'user', 'reset', 'ann@example.com', '--second-factor');
  assert.match(String(link), /\/dashboard\/link\//);
  assert.equal(await factor(), false);
  const codes = await onDatabase(place, ({ reads }) => reads.selectFrom('recovery_codes').selectAll().execute());
  assert.deepEqual(codes, []);
});

test('beside a running service: the link works there, and changes count from the next request on', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using running = await startBerth(files);
  const { dashboardPort: port = 0 } = running.service();
  const create = ['user', 'create', 'ann@example.com', '--account', running.accountId, '--role', 'admin'];
  const pathOf = ({ link }: Json): string => new URL(String(link)).pathname;
  let link = pathOf(await json(files, ...create));
  for (const change of [['set-role', 'member'], ['disable'], ['reset']]) {
    using visitor = visitorOf({ config: running.config, port });
    const set = await visitor.post(link, { password: PASSWORD, repeated: PASSWORD });
    assert.equal(set.status, 303);
    assert.equal((await visitor.get('/dashboard/directories')).status, 200);
    const [step = '', ...rest] = change;
    await json(files, 'user', step, 'ann@example.com', ...rest);
    assert.equal((await visitor.get('/dashboard/directories')).status, 303, `${step} ends the session`);
    const again = { email: 'ann@example.com', password: PASSWORD };
    assert.equal((await visitor.post('/dashboard/sign-in', again)).status, step === 'set-role' ? 303 : 422, step);
    if (step === 'disable') await json(files, 'user', 'enable', 'ann@example.com');
    link = pathOf(await json(files, 'user', 'reset', 'ann@example.com'));
  }
});
