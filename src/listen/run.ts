/** The whole of `berth listen`: receives and shows until it is told to stop. */
import { listen } from './receiver.ts';
import { secretInDatabase } from './secret.ts';

export interface RunOptions {
  readonly port: number;
  readonly fail: number;
  readonly delay: number;
  readonly secret?: string;
}

export interface RunWiring {
  /** The file of the database in which secrets are looked up. */
  readonly databaseFile: () => string;
  /** Writes to standard output as it is. */
  readonly stdout: (text: string) => void;
  /** Resolves when it is to end, on SIGINT say. */
  readonly stopped: () => Promise<unknown>;
}

/** @throws {OperatorError} when the port is taken or may not be used. */
export async function runListen(
  { port, fail, delay, secret }: RunOptions,
  { databaseFile, stdout, stopped }: RunWiring,
): Promise<void> {
  const secretOf = async (id: string): Promise<string | undefined> => secret ?? secretInDatabase(databaseFile(), id);
  const listening = await listen({ port, status: fail, delay, secretOf, print: stdout });
  stdout(`Listening on ${listening.url} for webhooks; Ctrl-C ends it.\n`);
  await stopped();
  await listening.close();
}
