/** Mistakes in the settings: each is named, and those that do not concern sshd are separate from those that do. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig, readForSshd } from '../../../src/foundation/base/config.ts';

test('a host is a name or an address', () => {
  for (const name of ['BERTH_SFTP_HOST', 'BERTH_API_HOST', 'BERTH_METRICS_HOST']) {
    for (const good of ['sftp.example.com', 'sftp_1', '192.0.2.7', '2001:db8::7', '::']) readConfig({ [name]: good });
    for (const bad of ['https://foo', 'foo bar', 'foo:2222', 'foo/', 'a..b', '[::1]']) {
      assert.throws(() => readConfig({ [name]: bad }), new RegExp(`${name} must be a host name or an IP address`), bad);
    }
  }
});

test('berth’s listeners have ports of their own', () => {
  const both = { BERTH_SFTP_PORT: '8443' };
  assert.throws(() => readConfig(both), /BERTH_SFTP_PORT and BERTH_API_PORT are both 8443/);
  assert.throws(
    () => readConfig({ BERTH_DASHBOARD_PORT: '2222' }),
    /BERTH_SFTP_PORT and BERTH_DASHBOARD_PORT are both/,
  );
  assert.throws(() => readConfig({ BERTH_DASHBOARD_PORT: '8443' }), /BERTH_API_PORT and BERTH_DASHBOARD_PORT are both/);
  const ownAddress = { BERTH_API_HOST: '192.0.2.7', BERTH_DASHBOARD_HOST: '192.0.2.8', BERTH_DASHBOARD_PORT: '8443' };
  assert.equal(readConfig(ownAddress).dashboard.own?.port, 8443);
  assert.equal(readConfig({ BERTH_SFTP_PORT: '0', BERTH_API_PORT: '0' }).api.port, 0);
});

test('sshd does not depend on the settings of the API', () => {
  const wrong = {
    BERTH_RATE_LIMIT: 'many',
    BERTH_TLS_CERT: '/etc/cert.pem',
    BERTH_OIDC_ISSUER: 'https://login.example.com',
    BERTH_SFTP_HOST: 'https://foo',
    BERTH_SFTP_PORT: '8443',
    BERTH_LOG_LEVEL: 'loud',
  };
  assert.throws(() => readConfig(wrong));
  const { config, ignored } = readForSshd({ ...wrong, BERTH_JAIL_DIR: '/data/jails' });
  assert.deepEqual([config.sftp.port, config.jailDir, config.tls.selfSigned], [8443, '/data/jails', true]);
  for (const name of ['BERTH_RATE_LIMIT', 'BERTH_TLS_CERT', 'BERTH_OIDC_MAP', 'BERTH_SFTP_HOST', 'BERTH_LOG_LEVEL']) {
    assert.ok(
      ignored.some((text) => text.includes(name)),
      name,
    );
  }
});

test('sshd depends on its port, its folders and the database', () => {
  for (const [name, bad] of [
    ['BERTH_SFTP_PORT', 'ssh'],
    ['BERTH_JAIL_DIR', 'jails'],
    ['BERTH_DATABASE_URL', 'sqlite:berth.db'],
    ['BERTH_NODE', 'Node 1'],
  ] as const) {
    assert.throws(
      () => readForSshd({ [name]: bad, BERTH_RATE_LIMIT: 'many' }),
      (error: Error) => {
        assert.match(error.message, new RegExp(`^configuration: ${name} [^;]*$`));
        return true;
      },
    );
  }
});
