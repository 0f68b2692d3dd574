/** A `berth serve` with a directory, whose connection to PostgreSQL can be cut. */
import { join } from 'node:path';
import { startBerth, type TestBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { freePort } from '../support/free-port.ts';
import { readJournal } from '../support/journal-text.ts';
import { until } from '../support/poll.ts';
import { freshDatabase, psql } from '../support/postgres.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { type ServeProcess, spawnServe } from '../support/serve-process.ts';
import { type Gateway, gateway } from './gateway.ts';

export interface AwayPlace extends AsyncDisposable {
  readonly place: Scratch;
  readonly url: string;
  readonly way: Gateway;
  readonly berth: TestBerth;
  readonly directory: TestDirectory;
  /** Starts a `berth serve`, which ends with the place. */
  serve(): ServeProcess;
  /** The same; returns once it serves. */
  serving(): Promise<ServeProcess>;
  /** What is in the spool. */
  spooled(): string;
  /** The webhooks so far, in order of time. */
  announced(): { readonly filename: string; readonly size_bytes: number }[];
  /** How many deliveries the database has. */
  deliveries(): number;
}

export async function awayPlace(): Promise<AwayPlace> {
  await using parts = new AsyncDisposableStack();
  const database = freshDatabase();
  parts.defer(() => database.drop());
  const corner = parts.use(scratch({ BERTH_DATABASE_URL: '' }));
  const way = parts.use(await gateway(corner.dir));
  const place = parts.use(
    scratch({
      BERTH_DATABASE_URL: way.throughIt(database.url),
      BERTH_NODE: 'one',
      BERTH_WEBHOOK_ALLOW: '127.0.0.0/8',
      BERTH_LOG_LEVEL: 'info',
    }),
  );
  const berth = parts.use(await startBerth(place));
  const directory = await berth.directory();
  await berth.stop();
  const environment = {
    ...place.environment,
    BERTH_API_PORT: String(await freePort()),
    BERTH_SFTP_PORT: String(berth.sshd.port),
  };
  const spool = join(berth.config.stateDir, 'journal');
  const processes = parts.use(new AsyncDisposableStack());
  const serve = (): ServeProcess => processes.use(spawnServe(environment));
  const owned = parts.move();
  return {
    place,
    url: database.url,
    way,
    berth,
    directory,
    serve,
    async serving() {
      const started = serve();
      await until('it serves', () => started.output().includes('berth serves'));
      return started;
    },
    spooled: () => readJournal(spool),
    announced: () => berth.receiver.requests.map(webhookOf),
    deliveries: () => Number(psql(database.url, 'select count(*) from deliveries')),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
