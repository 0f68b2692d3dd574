/** `berth node …`: the machines that share a PostgreSQL database. */
import { Command } from 'commander';
import type { Database } from '../foundation/db/open.ts';
import { isPostgresUrl } from '../foundation/base/database-place.ts';
import { OperatorError } from '../foundation/base/errors.ts';
import { drainNode, type ListedNode, listNodes, removeNode } from '../operating/nodes/list.ts';
import { shortTime, urlHost } from '../foundation/base/text.ts';
import { withDatabase } from './database.ts';
import type { Invocation } from './invocation.ts';
import { fullTime, printRows, type RowStyle } from './rows.ts';
import { receive } from '../operating/nodes/move/receive.ts';
import { type MoveOutcome, runMove } from '../operating/nodes/move/run.ts';
import { OPERATOR, operatorKeyId, operatorLogin, operatorSocket } from '../foundation/base/operator-socket.ts';
import { named } from './directory/named-directory.ts';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import type { Departure } from '../operating/nodes/move/departure.ts';
import type { Move, Moved } from '../operating/nodes/move/rehome.ts';
import { answered } from './directory/service.ts';

interface Json {
  readonly json?: true;
}

const STYLE: RowStyle<ListedNode> = {
  columns: {
    NODE: ({ name }) => name,
    STATE: ({ state }) => state,
    DIRECTORIES: ({ directories }) => directories,
    BYTES: ({ storage_bytes }) => storage_bytes,
    FREE: ({ free_bytes }) => free_bytes,
    SEEN: ({ seen_at }) => shortTime(seen_at),
    ADDRESS: ({ sftp_host, sftp_port }) => `${urlHost(sftp_host)}:${sftp_port}`,
    API: ({ api_url }) => api_url,
  },
  json: ({ name, sftp_host, sftp_port, api_url, state, directories, storage_bytes, free_bytes, seen_at }) => ({
    name,
    sftp_host,
    sftp_port,
    api_url,
    state,
    directories,
    storage_bytes,
    free_bytes,
    seen_at: fullTime(seen_at),
  }),
};

const HELP = `
A node is one of the machines that share a PostgreSQL database (BERTH_DATABASE_URL), named by BERTH_NODE. Each keeps the
files of its own directories. It is live while its berth serve runs and reaches the database, otherwise away. A drained node
is live, but gets no new directories.

Examples:
  berth node list
  berth node drain sftp-2
  berth node move acme-corp-x7k2m9qa --to sftp-2
  berth node remove sftp-2`;

export function nodeCommand(invocation: Invocation): Command {
  const { config, print } = invocation;

  /** @throws {OperatorError} with SQLite. */
  function withNodes<T>(use: (database: Database) => Promise<T>): Promise<T> {
    const settings = config();
    if (isPostgresUrl(settings.database)) return withDatabase(settings, use);
    throw new OperatorError('nodes need PostgreSQL, and BERTH_DATABASE_URL names none');
  }

  const command = new Command('node')
    .description('The machines that share a PostgreSQL database')
    .addHelpText('after', HELP);
  command
    .command('list')
    .description('List all nodes')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  berth node list')
    .action(async ({ json }: Json) => {
      printRows(await withNodes(({ reads }) => listNodes(reads)), STYLE, { print, json });
    });

  const changing = (name: string, description: string, example: string) =>
    command
      .command(name)
      .description(description)
      .argument('<node>')
      .option('--json', 'print JSON')
      .addHelpText('after', `\nExample:\n  ${example}`);
  changing('drain', 'Give a node no new directories', 'berth node drain sftp-2').action(
    (node: string, { json }: Json) => drain(node, true, json),
  );
  changing('undrain', 'Give it new directories again', 'berth node undrain sftp-2').action(
    (node: string, { json }: Json) => drain(node, false, json),
  );
  changing('remove', 'Remove a node that is away and has no directories', 'berth node remove sftp-2').action(
    async (node: string, { json }: Json) => {
      await withNodes(({ db }) => removeNode(db, node));
      print(json ? JSON.stringify({ name: node }) : `Removed node ${node}`);
    },
  );
  return command.addCommand(moveCommand(invocation, withNodes)).addCommand(receiveCommand(invocation, withNodes));

  async function drain(name: string, isDrained: boolean, json: true | undefined): Promise<void> {
    const nodes = await withNodes(async ({ db, reads }) => {
      await drainNode(db, name, isDrained);
      return listNodes(reads);
    });
    const node = nodes.find((one) => one.name === name);
    const gets = isDrained ? 'gets no new directories' : 'gets new directories again';
    print(json && node ? JSON.stringify(STYLE.json(node)) : `Node ${name} ${gets}`);
  }
}

// `berth node move`, and `berth node receive`, which it runs on the destination.

type WithNodes = <T>(use: (database: Database) => Promise<T>) => Promise<T>;

interface MoveChoice {
  readonly to: string;
  readonly ssh?: string;
  readonly shared?: boolean;
  readonly itIsOff?: boolean;
  readonly json?: true;
}

const MOVE_HELP = `
Run it as root on the node where the directory is. Files are copied by rsync over ssh, with your key, while the directory is
in use. Then nobody can log in to it for some seconds, until the latest changes are copied, too. Ids, credentials and the
history stay; the customer's address becomes that of the new node. Both nodes need rsync. You can interrupt the command and
repeat it to continue: at any time the directory is on exactly one of the two nodes.

--shared copies nothing: the jails of both nodes are on one storage, which both have at the same path.
--it-is-off is for a node that is off for good, and runs on any node. First copy its files from a backup to the folder that
berth node receive prints on the destination; without them the directory is empty. If that node returns, it removes its copy.

Examples:
  berth node move acme-corp-x7k2m9qa --to sftp-2
  berth node move acme-corp-x7k2m9qa --to sftp-2 --ssh 'ssh -p 2022 root@10.0.0.12'
  berth node move acme-corp-x7k2m9qa --to sftp-2 --it-is-off`;

function moveCommand(invocation: Invocation, withNodes: WithNodes): Command {
  const { config, clock, environment, print, stderr } = invocation;
  return new Command('move')
    .description('Move a directory to another node')
    .argument('<directory>', 'its id, SFTP username, external id, slug or name')
    .requiredOption('--to <node>', 'the destination')
    .option('--ssh <command>', 'how to run a command as root on that node (default: ssh root@ and its address)')
    .option('--shared', 'the jails of both nodes are on the same storage: copy nothing')
    .option('--it-is-off', "the directory's present node is off for good")
    .option('--json', 'print JSON')
    .addHelpText('after', MOVE_HELP)
    .action(async (text: string, { to, ssh, shared = false, itIsOff = false, json }: MoveChoice) => {
      const signal = invocation.catchSignals();
      if (shared && itIsOff) throw new OperatorError('--it-is-off copies nothing: leave out --shared');
      const words = ssh?.trim().split(/\s+/);
      if (words && words.length < 2)
        throw new OperatorError("--ssh takes a command and a host: --ssh 'ssh root@sftp-2'");
      const { node: here, jailDir } = config();
      const outcome = await withNodes(async ({ db }) => {
        const { directory } = await named(invocation, text, {});
        const by = { keyId: operatorKeyId(operatorLogin(environment)), requestId: '', route: 'berth node move' };
        const progress = (line: string): void => stderr(`${line}\n`);
        return runMove(
          { db, here, jailDir, clock, signal, progress, depart: (move) => leaving(invocation, move) },
          { directory, to, isShared: shared, isOff: itIsOff, ssh: words, by },
        );
      });
      if (json) print(JSON.stringify(outcome));
      else for (const line of linesOf(outcome)) print(line);
    });
}

function* linesOf({ sftp_username, from, to, sftp_host, sftp_port, locked_out_ms, is_live }: MoveOutcome) {
  yield from === null ? `${sftp_username} is on ${to} already` : `Moved ${sftp_username} from ${from} to ${to}`;
  yield `Its customer now connects to ${sftp_host}, port ${sftp_port}`;
  if (locked_out_ms !== null) yield `Nobody could log in for ${(locked_out_ms / 1000).toFixed(1)} s`;
  if (!is_live)
    yield `${to} has not answered yet, and lets its user in once it can: repeat this command to wait for that`;
}

const RECEIVE_HELP = `
berth node move runs this. Run it by hand for the files of a node that is off for good: copy them from a backup, with their
owners, to the folder that it prints, then move the directory.

Example:
  rsync -aH --numeric-ids backup.example.com:/backup/jails/acme-corp-x7k2m9qa/files/ "$(berth node receive ID)"`;

function receiveCommand({ config, print }: Invocation, withNodes: WithNodes): Command {
  return new Command('receive')
    .description('Make a folder on this node for the files of a directory that will move here')
    .argument('<id>', "the directory's id")
    .option('--as <node>', 'only if this is the name of this node')
    .addHelpText('after', RECEIVE_HELP)
    .action(async (id: string, { as }: { readonly as?: string }) => {
      const settings = config();
      const here = settings.node;
      if (as !== undefined && as !== here) throw new OperatorError(`this node is called ${here}, not ${as}`);
      print(await withNodes(({ db }) => receive(db, settings, id)));
    });
}

/**
 * Has the local service prepare a directory's departure (`http/operators.ts`) for as long as the connection is open.
 * @throws {OperatorError} with the service's text, or when it does not run. The returned functions throw the same.
 */
async function leaving({ config, environment }: Invocation, { id, to }: Pick<Move, 'id' | 'to'>): Promise<Departure> {
  const socketPath = operatorSocket(config());
  const headers = { [OPERATOR]: operatorLogin(environment), 'content-type': 'application/json' };

  const post = <T>(path: string, body: object | undefined, read: (incoming: IncomingMessage) => T | Promise<T>) =>
    answered({ socketPath, method: 'POST', path, headers, body }, read);

  const open = await post(`/moves/${id}`, { to }, (incoming) => incoming);
  open.on('error', () => undefined); // the commit reports it
  const [name] = (await once(open, 'data')) as [Buffer];
  return {
    async commit() {
      const answer = await post(`/moves/${name.toString().trim()}/commit`, undefined, textOf);
      return (JSON.parse(answer) as { data: Moved & { isApplied: boolean } }).data;
    },
    end: async () => void open.destroy(),
  };
}
