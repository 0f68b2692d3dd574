/** `berth account …` */
import { Argument, Command, Option } from 'commander';
import { accountNamed, createAccount, listAccounts, setPlan } from '../rules/accounts/accounts.ts';
import { PLANS } from '../rules/accounts/plans.ts';
import type { AccountsTable, Plan } from '../foundation/db/schema.ts';
import { shortTime } from '../foundation/base/terminal.ts';
import { deleteCommand } from './account-delete.ts';
import { accountWebhookCommand } from './account-webhook.ts';
import { sayingRefusals, withDatabase } from './database.ts';
import type { Invocation } from './invocation.ts';
import { printRows, type RowStyle } from './rows.ts';

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
