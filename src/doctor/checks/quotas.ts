/** Checks that the disk of the jails enforces quotas, if any directory has one. */
import { inspect } from '../../db/inspect.ts';
import { pathsOf } from '../../sftp/paths.ts';
import { kernelQuotas } from '../../sftp/quota.ts';
import { type Check, fail, ok } from '../finding.ts';
import { serveProcess } from '../processes.ts';

export const checkQuotas: Check = async (config) => {
  const { database, node, jailDir } = config;
  const { quotaSocket } = pathsOf(config);
  // Checked with the rights of berth serve, which may have fewer than the doctor.
  const obstacle = kernelQuotas(jailDir, quotaSocket, serveProcess(config)).obstacle();
  if (obstacle === undefined) return [ok(`${jailDir}: the kernel enforces quotas of directories`)];
  await using inspection = await inspect(database);
  const { count } = await inspection.db
    .selectFrom('directories')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('node', '=', node)
    .where('deleted_at', 'is', null)
    .where('quota_bytes', 'is not', null)
    .executeTakeFirstOrThrow();
  if (count === 0) return [ok(`no directory has a quota, and none can have one here: ${obstacle}`)];
  const first = obstacle.includes(quotaSocket) ? 'systemctl restart berth-quota.socket' : 'fix this';
  return [fail(`the quotas of ${count} directories are not enforced: ${obstacle}`, `${first}, then restart berth`)];
};
