/** From the end of a session to the last webhook for what it left under temporary names, in storms of several sessions. */
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { webhookOf } from '../support/berth.ts';
import { type Berth, startBerths } from './berths.ts';
import { type Bench, figures, inTurns } from './harness.ts';

const SESSIONS = 4;

export const temporaryNames: Bench = {
  name: 'temporary-names',
  async run(size, trees) {
    const [storms, files] = size === 'tiny' ? [1, 2] : [20, 100];
    await using berths = await startBerths(trees);
    await using parts = new AsyncDisposableStack();
    const places = [];
    for (const berth of berths.all) places.push(parts.use(await place(berth)));
    const worst = await inTurns(storms, places, ({ storm }, round) => storm(round, files));
    const share = `${SESSIONS} sessions × ${files} files`;
    return figures(
      `left under temporary names: end of session → its last webhook (${share})`,
      's',
      { most: 3 },
      trees,
      worst,
    );
  },
};

async function place({ config, directory }: Berth) {
  await using parts = new AsyncDisposableStack();
  const hook = parts.use(await receiver({ eachOnce: true }));
  const { sftp_username: username, sftp_password: password } = await directory({ webhook_url: hook.url });
  const owned = parts.move();

  /**
   * Every second session is cut off once its files are closed. Resolves with the seconds from its end to its last webhook.
   */
  async function session(name: string, files: number, isCut: boolean): Promise<number> {
    const connection = await connect({ port: config.sftp.port, username, password });
    const client = await sftpSession(connection);
    for (let count = 1; count <= files; count += 1) await client.put(`${name}-${count}.part`, name);
    const ended = performance.now();
    if (isCut) connection.drop();
    else await connection[Symbol.asyncDispose]();
    const own = () => hook.requests.filter((request) => webhookOf(request).filename.startsWith(`${name}-`));
    await until('all are announced', () => own().length === files);
    return (Math.max(...own().map(({ at }) => at)) - ended) / 1000;
  }

  return {
    /** The slowest session's. */
    async storm(round: number, files: number): Promise<number> {
      const names = Array.from({ length: SESSIONS }, (_, index) => `storm-${round}-${index}`);
      return Math.max(...(await Promise.all(names.map((name, index) => session(name, files, index % 2 === 1)))));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
