/** `berth account …` */
import { Argument, Command, Option } from 'commander';
import { createAccount, listAccounts, setPlan } from '../accounts/accounts.ts';
import { PLANS } from '../accounts/plans.ts';
import type { AccountsTable, Plan } from '../db/schema.ts';
import { shownTime, table } from './output.ts';
import type { DatabaseCommand } from './with-database.ts';

interface Json {
  json?: true;
}

export function accountCommand({ withDatabase, clock, print }: DatabaseCommand): Command {
  const command = new Command('account').description('Accounts and their plans');

  command
    .command('create')
    .description('Create an account')
    .argument('<name>', 'what the account is called')
    .addOption(new Option('--plan <plan>', 'the plan').choices(PLANS).makeOptionMandatory())
    .option('--json', 'print JSON')
    .addHelpText('after', "\nExample:\n  berth account create 'Acme Corp' --plan business")
    .action(async (name: string, { plan, json }: { plan: Plan } & Json) => {
      const account = await withDatabase((database) => createAccount({ database, clock }, { name, plan }));
      print(json ? JSON.stringify(shown(account)) : `Created account ${account.id} on the ${plan} plan`);
    });

  command
    .command('list')
    .description('List all accounts')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  berth account list')
    .action(async ({ json }: Json) => {
      const accounts = await withDatabase(listAccounts);
      if (json) print(JSON.stringify(accounts.map(shown)));
      else print(table(['ID', 'PLAN', 'CREATED', 'NAME'], accounts.map(cells)));
    });

  command
    .command('set-plan')
    .description('Change the plan of an account, in force from its next request')
    .argument('<account-id>')
    .addArgument(new Argument('<plan>').choices(PLANS))
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  berth account set-plan 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 pro')
    .action(async (accountId: string, plan: Plan, { json }: Json) => {
      const account = await withDatabase((database) => setPlan(database, accountId, plan));
      print(json ? JSON.stringify(shown(account)) : `Account ${account.id} is on the ${account.plan} plan`);
    });

  return command;
}

function shown({ id, name, plan }: AccountsTable): object {
  return { id, name, plan };
}

function cells({ id, name, plan, inserted_at }: AccountsTable): string[] {
  return [id, plan, shownTime(inserted_at), name];
}
