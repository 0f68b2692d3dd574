/** The dashboard's address, and the message when it cannot be used. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { readConfig } from '../../src/foundation/base/config.ts';
import { checkServe } from '../../src/operating/doctor/checks/running.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { startService } from '../../src/service/service.ts';
import { startBerth } from '../support/berth.ts';
import { scratch } from '../support/scratch.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { CLIENT } from '../support/openid-provider.ts';
import { startSshd } from '../support/sshd.ts';
import { COMPANY } from './company.ts';

test('if the dashboard’s own port is taken, an error names its settings, and the API does not keep listening', async () => {
  const other = createServer().listen(0, '0.0.0.0');
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  using files = scratch({ BERTH_DASHBOARD: 'on', BERTH_DASHBOARD_PORT: String(port) });
  await using sshd = await startSshd(files);
  const log = createLog('silent');
  await assert.rejects(startService(sshd.config, { log }), {
    name: 'OperatorError',
    message: new RegExp(
      `cannot listen on .*:${port}: something else listens there \\(BERTH_DASHBOARD_HOST, BERTH_DASHBOARD_PORT\\)`,
    ),
  });
  other.close();
  await once(other, 'close');
  await (await startService(sshd.config, { log })).close();
});

test('a host without a port is refused', () => {
  assert.throws(() => readConfig({ BERTH_DASHBOARD_HOST: '127.0.0.1' }), /BERTH_DASHBOARD_HOST needs/);
});

test('berth doctor says where the dashboard is', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const api = { ...berth.config.api, port: berth.service().port };
  const texts = async (config: typeof berth.config): Promise<string> =>
    (await checkServe({ ...config, api }, systemClock())).map(({ text }) => text).join('\n');
  assert.match(await texts(berth.config), new RegExp(`at https://${berth.config.tls.name}:${api.port}/dashboard`));
  const own = { host: '127.0.0.1', port: 9000 };
  assert.match(await texts({ ...berth.config, dashboard: { ...berth.config.dashboard, own } }), /:9000\/dashboard/);
  assert.doesNotMatch(
    await texts({ ...berth.config, dashboard: { ...berth.config.dashboard, isOn: false } }),
    /dashboard/,
  );
});

test('wrong settings of the company login are reported by name', () => {
  const all = {
    BERTH_OIDC_ISSUER: 'https://login.example.com',
    ...CLIENT,
    BERTH_OIDC_MAP: `a=b,c=${COMPANY}:admin,d=${COMPANY}:member`,
  };
  assert.deepEqual(readConfig(all).dashboard.companyLogin?.map, [
    { value: 'a=b,c', accountId: COMPANY, role: 'admin' },
    { value: 'd', accountId: COMPANY, role: 'member' },
  ]);
  for (const [wrong, message] of [
    [{ BERTH_OIDC_MAP: `a=${COMPANY}:owner` }, /BERTH_OIDC_MAP must be/],
    [{ BERTH_OIDC_MAP: `a=${COMPANY}:admin,b` }, /BERTH_OIDC_MAP must be/],
    [{ BERTH_OIDC_MAP: '' }, /go together/],
    [{ BERTH_OIDC_CLIENT_SECRET: '' }, /BERTH_OIDC_CLIENT_SECRET.* go together/],
    [{ BERTH_OIDC_ISSUER: 'http://login.example.com' }, /BERTH_OIDC_ISSUER must be an https/],
    [{ BERTH_OIDC_ISSUER: 'login' }, /BERTH_OIDC_ISSUER must be an https/],
  ] as const)
    assert.throws(() => readConfig({ ...all, ...wrong }), message);
  assert.throws(() => readConfig({ BERTH_PASSWORD_LOGIN: 'off' }), /needs a BERTH_OIDC_ISSUER/);
});
