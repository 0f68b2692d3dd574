/** Several nodes on one database: each with its own jails, state, ports and sshd, all in this process. */
import { readFileSync } from 'node:fs';
import { type Database, openDatabase } from '../../src/foundation/db/open.ts';
import { type ApiAnswer, apiClient, type Send } from '../support/api-client.ts';
import { startBerth, type TestBerth } from '../support/berth.ts';
import { freshDatabase } from '../support/postgres.ts';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';

export interface Created {
  readonly id: string;
  readonly sftp_host: string;
  readonly sftp_port: number;
  readonly sftp_username: string;
  readonly sftp_password: string;
}

export interface TestNode {
  readonly name: string;
  readonly berth: TestBerth;
  /** For commands that are run there. */
  readonly environment: Readonly<Record<string, string>>;
  /** A request to this node, with a key that all of them know. */
  readonly send: Send;
}

/** The node b has it in its settings; no other node has one. */
export const URL_OF_B = 'https://b.example.com:8443';

export interface NodesPlace extends AsyncDisposable {
  readonly url: string;
  readonly nodes: readonly TestNode[];
  node(name: string): TestNode;
  /** Creates one through that node until it is at home on the other. */
  directoryOn(home: TestNode, through: TestNode): Promise<Created>;
  /** What the database has. */
  readonly db: Database['db'];
}

/** A node's name, or its settings with it as `BERTH_NODE`. */
type Wanted = string | (Record<string, string> & { readonly BERTH_NODE: string });

export async function nodesPlace(...wanted: readonly Wanted[]): Promise<NodesPlace> {
  await using parts = new AsyncDisposableStack();
  const database = freshDatabase();
  parts.defer(() => database.drop());
  const { db } = parts.adopt(await openDatabase(database.url), (opened) => opened.close());
  const nodes: TestNode[] = [];
  for (const one of wanted) {
    const settings = typeof one === 'string' ? { BERTH_NODE: one } : one;
    const name = settings.BERTH_NODE;
    const url = name === 'b' ? { BERTH_API_URL: URL_OF_B } : {};
    const place = parts.use(scratch({ BERTH_DATABASE_URL: database.url, ...settings, ...url }));
    const berth = parts.use(await startBerth(place));
    const send: Send = async (...request) => {
      const { key } = nodes[0]?.berth ?? berth;
      using client = apiClient({ port: berth.service().port, ca: readFileSync(berth.config.tls.cert), key });
      return await client.send(...request);
    };
    nodes.push({ name, berth, environment: place.environment, send });
  }
  const owned = parts.move();
  return {
    url: database.url,
    db,
    nodes,
    node(called) {
      const found = nodes.find(({ name }) => name === called);
      if (!found) throw new Error(`no node is called ${called}`);
      return found;
    },
    async directoryOn(home, through) {
      for (let tries = 0; tries < 10; tries += 1) {
        const made = created(await through.send('POST', '/directories', { json: { directory: { name: 'Acme' } } }));
        if (made.sftp_port === home.berth.sshd.port) return made;
      }
      throw new Error(`no directory went to ${home.name}`);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

export function created({ status, json, text }: ApiAnswer): Created {
  if (status !== 201) throw new Error(`a create was answered ${status}: ${text}`);
  return (json as { data: Created }).data;
}

/** Whether one gets in there, with that password. */
export async function letsIn(node: TestNode, directory: Created, password = directory.sftp_password): Promise<boolean> {
  try {
    await using _session = await connect({
      port: node.berth.sshd.port,
      username: directory.sftp_username,
      password,
    });
    return true;
  } catch (error) {
    if (/authentication|All configured|closed the connection/i.test(String(error))) return false;
    throw error;
  }
}
