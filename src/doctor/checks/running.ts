/** The two processes: berth serve with its API, and our sshd. */
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Config } from '../../config.ts';
import { errorMessage } from '../../errors.ts';
import { askApi } from '../api.ts';
import { type Check, fail, ok } from '../finding.ts';
import { serveProcess } from '../lock-holder.ts';

/** How long sshd may take to say who it is, in ms. */
const PATIENCE = 5000;

export function serveCheck(config: Config): Check {
  return {
    name: 'serve',
    async run() {
      const pid = serveProcess(config);
      if (pid === undefined)
        return [fail('berth serve does not run', 'systemctl start berth; why it ended: journalctl -u berth')];
      try {
        const { status } = await askApi(config, { method: 'GET', path: '/healthz' });
        if (status === 200) return [ok(`berth serve runs (process ${pid}) and is healthy`)];
        return [
          fail(`berth serve (process ${pid}) is not healthy: it answers ${status}`, 'it says why: journalctl -u berth'),
        ];
      } catch (error) {
        return [
          fail(`berth serve (process ${pid}) does not answer: ${errorMessage(error)}`, 'systemctl restart berth'),
        ];
      }
    },
  };
}

export function sshdCheck({ sftp }: Config): Check {
  return {
    name: 'sshd',
    async run() {
      const socket = connect({ host: '127.0.0.1', port: sftp.port });
      try {
        const [data] = (await once(socket, 'data', { signal: AbortSignal.timeout(PATIENCE) })) as [Buffer];
        const banner = data.toString('latin1').split(/[\r\n]/)[0] ?? '';
        if (banner.startsWith('SSH-2.0-OpenSSH')) return [ok(`sshd listens on port ${sftp.port} (${banner})`)];
        return [
          fail(
            `something else answers on port ${sftp.port}: ${banner.slice(0, 60)}`,
            'end it, or choose another BERTH_SFTP_PORT',
          ),
        ];
      } catch (error) {
        return [
          fail(
            `no sshd answers on port ${sftp.port}: ${errorMessage(error)}`,
            'systemctl start berth-sshd; why it ended: journalctl -u berth-sshd',
          ),
        ];
      } finally {
        socket.destroy();
      }
    },
  };
}
