/** The configuration of a berth that runs as a process of its own, as it is read and as the environment for it: its ports are fixed. */
import type { Config } from '../../src/foundation/base/config.ts';
import { freePort } from './free-port.ts';
import type { Scratch } from './scratch.ts';
import type { Sshd } from './sshd.ts';

/** @param settings further variables, which are the process's alone. Webhooks may go to this machine. */
export async function fixedPorts(
  place: Scratch,
  sshd?: Sshd,
  settings: Record<string, string> = {},
): Promise<{ config: Config; environment: Record<string, string> }> {
  const port = await freePort();
  const environment = {
    ...place.environment,
    BERTH_API_PORT: String(port),
    BERTH_SFTP_PORT: String(sshd?.port ?? 0),
    BERTH_WEBHOOK_ALLOW: '127.0.0.0/8',
    ...settings,
  };
  return { config: { ...(sshd?.config ?? place.config), api: { host: '127.0.0.1', port } }, environment };
}
