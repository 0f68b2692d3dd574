/** An IPv6 address of the server in what people paste: sftp takes a bare one for the name of a host with a path. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { originOf, readConfig } from '../../../src/foundation/base/config.ts';
import { sftpCommand } from '../../../src/cli/directory/fields.ts';
import { clientCommands } from '../../../src/doors/dashboard/pages/directory/client-commands.ts';

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
