/** `berth account …` */
import { Argument, Command, Option } from 'commander';
import {
  accountNamed,
  createAccount,
  listAccounts,
  markDeleted,
  PLANS,
  setPlan,
  unknownAccount,
} from '../rules/accounts/accounts.ts';
import type { AccountsTable, Plan } from '../foundation/db/schema.ts';
import { shortTime } from '../foundation/base/text.ts';
import { sayingRefusals, withDatabase } from './database.ts';
import type { Invocation } from './invocation.ts';
import { printRows, type RowStyle } from './rows.ts';
import { OperatorError } from '../foundation/base/errors.ts';
import { table } from './directory/fields.ts';
import { type Answer, asking } from './directory/service.ts';
import { type ChosenEvents, eventLines, eventsBody } from './directory/webhook.ts';
import { setTimeout } from 'node:timers/promises';
import type { Config } from '../foundation/base/config.ts';
import type { Database } from '../foundation/db/open.ts';
import { some } from '../operating/doctor/finding.ts';
import { serveProcess } from '../operating/doctor/processes.ts';
import { operatorKeyId, operatorLogin } from '../foundation/base/operator-socket.ts';
import { holdingsOf } from '../operating/reports/queries.ts';
import { confirm, irrevocable } from './directory/named-directory.ts';

interface Json {
  readonly json?: true;
}

const STYLE: RowStyle<AccountsTable> = {
  columns: {
    ID: ({ id }) => id,
    PLAN: ({ plan }) => plan,
    CREATED: ({ inserted_at }) => shortTime(inserted_at),
    NAME: ({ name }) => name,
  },
  json: ({ id, name, plan }) => ({ id, name, plan }),
};

export function accountCommand(invocation: Invocation): Command {
  const { config, clock, print } = invocation;
  const command = new Command('account')
    .description('Accounts and their plans')
    .addHelpText(
      'after',
      "\nExamples:\n  berth account create 'Acme Corp' --plan business\n  berth account list\n  berth account delete ACCOUNT_ID",
    );

  command
    .command('create')
    .description('Create an account')
    .argument('<name>', 'the name of the account')
    .addOption(new Option('--plan <plan>', 'the plan').choices(PLANS).makeOptionMandatory())
    .option('--json', 'print JSON')
    .addHelpText('after', "\nExample:\n  berth account create 'Acme Corp' --plan business")
    .action(async (name: string, { plan, json }: { plan: Plan } & Json) => {
      const account = await withDatabase(config(), (database) =>
        sayingRefusals(() => createAccount({ database, clock }, { name, plan })),
      );
      print(json ? JSON.stringify(STYLE.json(account)) : `Created account ${account.id} on the ${plan} plan`);
    });

  command
    .command('list')
    .description('List all accounts')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  berth account list')
    .action(async ({ json }: Json) => printRows(await withDatabase(config(), listAccounts), STYLE, { print, json }));

  command
    .command('set-plan')
    .description('Change the plan of an account, from its next request on')
    .argument('<account>', 'its id or name')
    .addArgument(new Argument('<plan>').choices(PLANS))
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExample:\n  berth account set-plan 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 pro\n  berth account set-plan "Acme Corp" pro',
    )
    .action(async (text: string, plan: Plan, { json }: Json) => {
      const account = await withDatabase(config(), async (database) =>
        setPlan(database, await accountNamed(database.reads, text), plan),
      );
      print(json ? JSON.stringify(STYLE.json(account)) : `Account ${account.id} is on the ${account.plan} plan`);
    });

  return command.addCommand(accountWebhookCommand(invocation)).addCommand(deleteCommand(invocation));
}

const WEBHOOK_HELP = `
Examples:
  berth account webhook 'Acme Corp'                                 show it
  berth account webhook 'Acme Corp' --url https://example.com/hook  set the URL; an empty one turns it off
  berth account webhook 'Acme Corp' --events file.deleted,upload.failed   choose events beside uploads; none for no others
  berth account webhook 'Acme Corp' --new-secret                    add a second secret: signatures carry both from now on
  berth account webhook 'Acme Corp' --activate                      end the old secret`;

interface WebhookOptions {
  readonly url?: string;
  readonly newSecret?: true;
  readonly activate?: true;
  readonly events?: string;
  readonly json?: true;
}

function accountWebhookCommand(invocation: Invocation): Command {
  const { print, stderr } = invocation;
  return new Command('webhook')
    .description('The webhook for all directories without a webhook URL of their own')
    .argument('<account>', 'its id or name')
    .option('--url <url>', 'set the URL')
    .option('--new-secret', 'make a new secret, beside the old one')
    .option('--activate', 'end the old secret')
    .option('--events <list>', 'choose the events besides file.uploaded, separated by commas; none for no others')
    .option('--json', 'print JSON')
    .addHelpText('after', WEBHOOK_HELP)
    .action(async (text: string, { url, newSecret, activate, events, json }: WebhookOptions) => {
      if ([url, newSecret, activate, events].filter((option) => option !== undefined).length > 1)
        throw new OperatorError('use only one of --url, --new-secret, --activate and --events');
      const account = await withDatabase(invocation.config(), ({ reads }) => accountNamed(reads, text));
      const ask = asking(invocation, account);
      if (events !== undefined) {
        const chosen = await ask<ChosenEvents>('PUT', '/webhook/events', eventsBody(events.split(',')));
        for (const words of chosen.warnings) stderr(`berth: ${words}\n`);
        return print(json ? chosen.json : eventLines(chosen.data).join('\n'));
      }
      const request = (): Promise<Answer<Record<string, string | boolean | null>>> => {
        if (url !== undefined) return ask('PUT', '/webhook', { url: url === '' ? null : url });
        if (newSecret || activate) return ask('POST', '/webhook/secret', { activate: activate ?? false });
        return ask('GET', '/webhook');
      };
      const answer = await request();
      for (const words of answer.warnings) stderr(`berth: ${words}\n`);
      print(json ? answer.json : table(answer.data).join('\n'));
    });
}

/** How long the command waits for the service, and how often it checks. */
const TIMEOUT_MS = 60_000;
const POLL_MS = 100;

const DELETE_HELP = `
Its keys are refused at once. The running service deletes its directories one by one, as the API does: it ends credentials
and sessions, then removes the files. If you interrupt the command, the service continues; run it again to wait for the end.

Examples:
  berth account delete 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10
  berth account delete 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --yes --json`;

interface DeleteOptions {
  readonly yes?: true;
  readonly json?: true;
}

type Holdings = NonNullable<Awaited<ReturnType<typeof holdingsOf>>>;

function deleteCommand(invocation: Invocation): Command {
  const { config, clock, environment, print } = invocation;
  return irrevocable(new Command('delete').description('Delete an account, its keys and all of its directories'))
    .argument('<account>', 'its id or name')
    .option('--json', 'print JSON')
    .addHelpText('after', DELETE_HELP)
    .action(async (text: string, options: DeleteOptions) => {
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
