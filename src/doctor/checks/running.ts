/** The two processes: berth serve with its API, and our sshd. */
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Config } from '../../config.ts';
import { errorMessage } from '../../errors.ts';
import { askApi } from '../api.ts';
import { type Check, fail, type Finding, ok } from '../finding.ts';
import { serveProcess } from '../processes.ts';

/** How long sshd may take to send its banner, in ms. */
const TIMEOUT = 5000;

export const checkServe: Check = async (config) => {
  const pid = serveProcess(config);
  if (pid === undefined) {
    return [fail('berth serve does not run', 'systemctl start berth; why it ended: journalctl -u berth')];
  }
  const name = `berth serve (process ${pid})`;
  try {
    const { status } = await askApi(config, { method: 'GET', path: '/healthz' });
    if (status === 200) return [ok(`${name} runs and is healthy`), ...dashboardAt(config)];
    return [fail(`${name} is not healthy: it answers ${status}`, 'it says why: journalctl -u berth')];
  } catch (error) {
    if (/handshake failure/.test(errorMessage(error))) {
      return [fail(`${name} runs, but its API has no certificate`, 'mend what the line on the certificate names')];
    }
    return [fail(`${name} does not answer: ${errorMessage(error)}`, 'systemctl restart berth')];
  }
};

/** Where people find it: behind a proxy only the proxy knows. */
function dashboardAt({ dashboard, api, tls }: Config): Finding[] {
  if (!dashboard.isOn) return [];
  const { host, port } = dashboard.own ?? api;
  if (tls.mode === 'proxy') return [ok(`the dashboard is below /dashboard of the proxy that asks ${host}:${port}`)];
  return [ok(`the dashboard is at https://${tls.name}:${port}/dashboard`)];
}

export const checkSshd: Check = async ({ sftp: { port } }) => {
  const socket = connect({ host: '127.0.0.1', port });
  try {
    const [data] = (await once(socket, 'data', { signal: AbortSignal.timeout(TIMEOUT) })) as [Buffer];
    const banner = data.toString('latin1').split(/[\r\n]/)[0] ?? '';
    if (banner.startsWith('SSH-2.0-OpenSSH')) return [ok(`sshd listens on port ${port} (${banner})`)];
    const text = `something else answers on port ${port}: ${banner.slice(0, 60)}`;
    return [fail(text, 'end it, or choose another BERTH_SFTP_PORT')];
  } catch (error) {
    const remedy = 'systemctl start berth-sshd; why it ended: journalctl -u berth-sshd';
    return [fail(`no sshd answers on port ${port}: ${errorMessage(error)}`, remedy)];
  } finally {
    socket.destroy();
  }
};
