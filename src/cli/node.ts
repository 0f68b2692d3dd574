/** `berth node …`: the machines that share a PostgreSQL database. */
import { Command } from 'commander';
import type { Database } from '../foundation/db/open.ts';
import { isPostgresUrl } from '../foundation/base/database-place.ts';
import { OperatorError } from '../foundation/base/errors.ts';
import { drainNode, removeNode } from '../operating/nodes/leave.ts';
import { type ListedNode, listNodes } from '../operating/nodes/list.ts';
import { shortTime } from '../foundation/base/terminal.ts';
import { urlHost } from '../foundation/base/url-host.ts';
import { withDatabase } from './database.ts';
import type { Invocation } from './invocation.ts';
import { moveCommand, receiveCommand } from './node-move.ts';
import { fullTime, printRows, type RowStyle } from './rows.ts';

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

  const command = new Command('node').description('The machines that share a PostgreSQL').addHelpText('after', HELP);
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
