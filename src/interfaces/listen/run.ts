/** Runs `berth listen`: receives webhooks and shows them until a signal ends it. */
import { openDatabase } from '../../foundation/db/open.ts';
import { isMissing } from '../../foundation/base/database-place.ts';
import { listen } from './receiver.ts';

export interface ListenArguments {
  readonly port: number;
  /** The status to answer with. */
  readonly fail: number;
  /** The wait before the answer, in seconds. */
  readonly delay: number;
  /** Used instead of the one in the database. */
  readonly secret?: string;
}

export interface ListenWiring {
  /** The database in which secrets are looked up. */
  database(): string;
  /** Writes to standard output as it is. */
  stdout(text: string): void;
  /** Resolves when it should end, for example on SIGINT. */
  stopped(): Promise<unknown>;
}

/** @throws {OperatorError} when the port is taken or may not be used. */
export async function runListen(
  { port, fail, delay, secret }: ListenArguments,
  { database, stdout, stopped }: ListenWiring,
): Promise<void> {
  const secretOf = async (id: string): Promise<string | undefined> => secret ?? secretInDatabase(database(), id);
  const listening = await listen({ port, status: fail, delay, secretOf, print: stdout });
  stdout(`Listening on ${listening.url} for webhooks; Ctrl-C ends it.\n`);
  await stopped();
  await listening.close();
}

/** A directory's webhook secret; undefined when there is no such directory or no database. Does not create the database. */
export async function secretInDatabase(place: string, directoryId: string): Promise<string | undefined> {
  if (isMissing(place)) return undefined;
  const database = await openDatabase(place);
  try {
    const secret = database.db.selectFrom('directories').select('webhook_secret').where('id', '=', directoryId);
    return (await secret.executeTakeFirst())?.webhook_secret;
  } finally {
    await database.close();
  }
}
