/** Does once what most tests do, and keeps what V8 has compiled for it: with the functions that have run, so no test compiles those. */
import { startBerth } from './berth.ts';
import { signedIn } from './dashboard.ts';
import { bundleUrl } from './node-environment.ts';
import { scratch } from './scratch.ts';
import { sftpSession } from './sftp-session.ts';

using place = scratch({ BERTH_DASHBOARD: 'on' });
await using berth = await startBerth(place);
const directory = await berth.directory();
{
  await using connection = await berth.connect(directory);
  await (await sftpSession(connection)).put('orders.csv', 'data');
}
await berth.receiver.next();
using visitor = await signedIn({ config: berth.config, port: berth.service().dashboardPort ?? 0 }, berth.accountId);
for (const page of ['', '/directories', `/directories/${directory.id}`, `/directories/${directory.id}/files`]) {
  await visitor.get(`/dashboard${page}`);
}
await import('../../src/cli/program.ts');
const { keepCompiled } = (await import(bundleUrl() ?? '')) as { keepCompiled(): void };
keepCompiled();
