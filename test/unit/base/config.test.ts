/** Settings: each mistake is named, apart from those that do not concern sshd; /etc/berth/berth.env as systemd reads it; addresses to paste. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { sftpCommand } from '../../../src/cli/directory/fields.ts';
import { clientCommands } from '../../../src/interfaces/dashboard/pages/directory/client-commands.ts';
import { originOf, readConfig, readForSshd } from '../../../src/foundation/base/config.ts';
import { ignoredLines, settingsIn } from '../../../src/foundation/base/settings-file.ts';
import { scratch } from '../../support/scratch.ts';

test('a host is a name or an address', () => {
  for (const name of ['BERTH_SFTP_HOST', 'BERTH_API_HOST', 'BERTH_METRICS_HOST']) {
    for (const good of ['sftp.example.com', 'sftp_1', '192.0.2.7', '2001:db8::7', '::']) readConfig({ [name]: good });
    for (const bad of ['https://foo', 'foo bar', 'foo:2222', 'foo/', 'a..b', '[::1]']) {
      assert.throws(() => readConfig({ [name]: bad }), new RegExp(`${name} must be a host name or an IP address`), bad);
    }
  }
});

test('an IPv6 address has its short form, as clients write it', () => {
  for (const [given, short] of [
    ['0:0:0:0:0:0:0:1', '::1'],
    ['2001:0DB8:0000:0000:0001:0000:0000:0001', '2001:db8::1:0:0:1'],
    ['2001:db8::7', '2001:db8::7'],
    ['fe80::1%eth0', 'fe80::1%eth0'],
    ['192.0.2.7', '192.0.2.7'],
    ['SFTP.example.com', 'SFTP.example.com'],
  ] as const) {
    assert.equal(readConfig({ BERTH_SFTP_HOST: given }).sftp.host, short);
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

// /etc/berth/berth.env as systemd reads it.

test('the last line of a name counts, quotes are removed, comments are not settings', () => {
  const text = '#BERTH_A=0\n; B\nBERTH_A=1\n BERTH_B = "x y" \nBERTH_A=\'2\'\nBERTH_C=\n';
  assert.deepEqual(Object.fromEntries(settingsIn(text)), { BERTH_A: '2', BERTH_B: 'x y', BERTH_C: '' });
});

test('lines without effect are named', () => {
  using place = scratch();
  const file = join(place.dir, 'berth.env');
  assert.deepEqual(ignoredLines(file), []);
  writeFileSync(file, '# x\n\nBERTH_A=1 \\\n2\nexport BERTH_RATE_LIMIT=9\nBERTH-B=1\n');
  assert.deepEqual(ignoredLines(file), [
    `line 5 of ${file} has no effect: write BERTH_RATE_LIMIT=… without "export"`,
    `line 6 of ${file} has no effect: it is not NAME=VALUE`,
  ]);
});

// An IPv6 address of the server in what people paste: sftp takes a bare one for the name of a host with a path.

test('commands and origins have an IPv6 address in brackets, other hosts as they are', () => {
  for (const [host, expected, login] of [
    ['2001:db8::7', '[2001:db8::7]', "'acme@[2001:db8::7]'"],
    ['192.0.2.7', '192.0.2.7', 'acme@192.0.2.7'],
    ['sftp.example.com', 'sftp.example.com', 'acme@sftp.example.com'],
  ] as const) {
    const command = `sftp -P 2222 ${login}`;
    const fields = { auth_mode: 'password', webhook_url: null, webhook_secret: '' };
    const shown = { id: 'id', sftp_host: host, sftp_port: 2222, sftp_username: 'acme', ...fields };
    assert.equal(sftpCommand(shown), command);
    assert.equal(clientCommands({ host, port: 2222, username: 'acme' }, []).sftp, command);
    const { tls, api } = readConfig({ BERTH_SFTP_HOST: host });
    assert.equal(originOf(tls, api.port), `https://${expected}:8443`);
  }
});
