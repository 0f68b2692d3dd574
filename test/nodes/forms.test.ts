/** A form of the dashboard that reaches two nodes, as behind a load balancer: it creates once, and both show the secret. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DAY, formatMicros, systemClock } from '../../src/foundation/base/clock.ts';
import { signedIn, type Visitor, visitorOf } from '../support/dashboard.ts';
import { dashboardOf } from '../support/directory-page.ts';
import { ask } from '../support/links.ts';
import { postgresOnly } from '../support/postgres.ts';
import { created, nodesPlace } from './nodes-place.ts';

const secretIn = ({ text }: { text: string }): string | undefined =>
  /data-secret="[^"]*"[^>]*>([^<]*)</.exec(text)?.[1];

test(
  'a form that is sent to two nodes creates once, and both answers lead to its secret; of two who open a password’s link on both nodes, one sees it',
  postgresOnly,
  async () => {
    await using place = await nodesPlace(
      { BERTH_NODE: 'a', BERTH_DASHBOARD: 'on' },
      { BERTH_NODE: 'b', BERTH_DASHBOARD: 'on' },
    );
    const [a, b] = [place.node('a'), place.node('b')];
    using atA = await signedIn(dashboardOf(a.berth), a.berth.accountId);
    using atB = visitorOf(dashboardOf(b.berth));
    for (const [name, value] of atA.cookies) atB.cookies.set(name, value);
    const { id } = created(await a.send('POST', '/directories', { json: { directory: { name: 'Inbox' } } }));
    const links = `/dashboard/directories/${id}/links`;
    const expires_at = formatMicros(systemClock().now() + DAY).slice(0, 19);
    // A link's page is answered where the directory is at home.
    const home = (await atA.get(links)).status === 200 ? atA : atB;
    const forms: [string, string, (of: string) => Record<string, string>, readonly Visitor[]][] = [
      ['/dashboard/directories/new', '/dashboard/directories', (name) => ({ name }), [atA, atB]],
      ['/dashboard/api-keys', '/dashboard/api-keys', (name) => ({ name, role: 'member' }), [atA, atB]],
      [
        links,
        `${links}?for=upload`,
        (name) => ({ path: `${name}/`, max_bytes: '1 MB', expires_at, uses: 'often' }),
        [home, home],
      ],
      ['/dashboard/team', '/dashboard/team', (name) => ({ email: `${name}@example.com`, role: 'member' }), [atA, atB]],
    ];
    for (const [page, path, fieldsOf, [one, other]] of forms)
      for (const isAtOnce of [true, false]) {
        assert.ok(one && other);
        const name = isAtOnce ? 'at-once' : 'one-by-one';
        const _form = /name="_form" value="([\w-]+)"/.exec((await one.get(page)).text)?.[1] ?? '';
        const fields = { ...fieldsOf(name), _form };
        const first = one.post(path, fields);
        if (!isAtOnce) await first;
        const answers = await Promise.all([first, other.post(path, fields)]);
        assert.deepEqual(
          answers.map(({ status }) => status),
          [303, 303],
          `${path} ${name}`,
        );
        const [next, again] = answers.map(({ headers }) => headers.location ?? '');
        assert.equal(again, next, path);
        const secrets = [await one.get(next ?? ''), ...(one === other ? [] : [await other.get(next ?? '')])].map(
          secretIn,
        );
        assert.ok(secrets[0], path);
        assert.equal(new Set(secrets).size, 1, `${path} ${name}`);
      }
    const made = await atA.submit(`/dashboard/directories/${id}/password`, { as: 'link' });
    const { pathname: link } = new URL(secretIn(made) ?? '');
    for (const node of [a, b]) assert.equal((await ask(node.berth, link)).status, 200);
    const shown = await Promise.all([a, b].map((node) => ask(node.berth, link, { method: 'POST' })));
    assert.deepEqual(
      shown.map(({ status }) => status).toSorted((x, y) => x - y),
      [200, 410],
    );
    for (const [table, column, wanted] of [
      ['directories', 'name', 3],
      ['links', 'id', 3],
      ['users', 'email', 3],
    ] as const)
      assert.equal(
        (
          await place.db
            .selectFrom(table)
            .select(column as never)
            .execute()
        ).length,
        wanted,
        table,
      );
  },
);
