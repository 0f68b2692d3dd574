/** `berth account delete`: deletes an account with its keys and all of its directories, for good. */
import { setTimeout } from 'node:timers/promises';
import { Command } from 'commander';
import { accountNamed, markDeleted, unknownAccount } from '../rules/accounts/accounts.ts';
import type { Config } from '../foundation/base/config.ts';
import type { Database } from '../foundation/db/open.ts';
import { some } from '../operating/doctor/finding.ts';
import { serveProcess } from '../operating/doctor/processes.ts';
import { OperatorError } from '../foundation/base/errors.ts';
import { operatorKeyId, operatorLogin } from '../foundation/base/operator-socket.ts';
import { holdingsOf } from '../operating/reports/queries.ts';
import { withDatabase } from './database.ts';
import { confirm, irrevocable } from './directory/named-directory.ts';
import type { Invocation } from './invocation.ts';

/** How long the command waits for the service, and how often it checks. */
const TIMEOUT_MS = 60_000;
const POLL_MS = 100;

const HELP = `
Its keys are refused at once. The running service deletes its directories one by one, as the API does: it ends credentials
and sessions, then removes the files. If you interrupt the command, the service continues; run it again to wait for the end.

Examples:
  berth account delete 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10
  berth account delete 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --yes --json`;

interface Options {
  readonly yes?: true;
  readonly json?: true;
}

type Holdings = NonNullable<Awaited<ReturnType<typeof holdingsOf>>>;

export function deleteCommand(invocation: Invocation): Command {
  const { config, clock, environment, print } = invocation;
  return irrevocable(new Command('delete').description('Delete an account, its keys and all of its directories'))
    .argument('<account>', 'its id or name')
    .option('--json', 'print JSON')
    .addHelpText('after', HELP)
    .action(async (text: string, options: Options) => {
      const settings = config();
      await withDatabase(settings, async (database) => {
        const id = await accountNamed(database.reads, text);
        const holdings = await holdingsOf(database, id);
        if (!holdings) throw unknownAccount(id);
        needService(settings);
        await confirm(invocation, options, question(id, holdings));
        await markDeleted({ database, clock }, id, operatorKeyId(operatorLogin(environment)));
        await gone(database, id);
        const { name, keys, directories } = holdings;
        const usernames = directories.map(({ sftp_username }) => sftp_username);
        if (options.json) print(JSON.stringify({ id, name, keys, directories: usernames }));
        else
          print(
            `Deleted account ${id} with ${counted(keys, 'API key')} and ${counted(usernames.length, 'directory', 'directories')}`,
          );
      });
    });
}

/** @throws {OperatorError} unless the service runs, which does most of the work. */
function needService(config: Config): void {
  if (serveProcess(config) !== undefined) return;
  throw new OperatorError(
    'berth serve does not run here: start it with systemctl start berth, or with scripts/start in a checkout',
  );
}

function question(id: string, { name, keys, directories }: Holdings): string {
  const bytes = directories.reduce((sum, { storage_bytes }) => sum + storage_bytes, 0);
  const usernames = directories.map(({ sftp_username }) => sftp_username);
  const named = usernames.length === 0 ? '' : ` (${some(usernames, 10)}) with ${bytes} bytes of files`;
  const what = `${counted(keys, 'API key')} and ${counted(usernames.length, 'directory', 'directories')}${named}`;
  return `Delete account ${JSON.stringify(name)} (${id}) for good, with ${what}?`;
}

function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** Waits until the account's row is removed. */
async function gone({ db }: Database, id: string): Promise<void> {
  const row = db.selectFrom('accounts').select('id').where('id', '=', id);
  for (let waited = 0; waited < TIMEOUT_MS; waited += POLL_MS) {
    if (!(await row.executeTakeFirst())) return;
    await setTimeout(POLL_MS);
  }
  throw new OperatorError(
    'its keys are refused, and its directories are still being deleted in the background: see berth directories --account',
  );
}
