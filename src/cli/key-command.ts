/** `berth key …` */
import { Command, Option } from 'commander';
import { type ApiKey, createKey, listKeys, revokeKey, ROLES } from '../accounts/api-keys.ts';
import type { Environment } from '../accounts/key-format.ts';
import { formatMicros } from '../clock.ts';
import type { Role } from '../db/schema.ts';
import { shownTime, table } from './output.ts';
import type { DatabaseCommand } from './with-database.ts';

interface Json {
  json?: true;
}

export function keyCommand({
  withDatabase,
  clock,
  environment,
  print,
}: DatabaseCommand & {
  /** Which of the two prefixes new keys get. */
  environment: () => Environment;
}): Command {
  const command = new Command('key').description('API keys');

  command
    .command('create')
    .description('Create an API key and show it, this once')
    .argument('<account-id>')
    .addOption(
      new Option('--role <role>', 'what it may do: only admin changes auth settings').choices(ROLES).default('admin'),
    )
    .option('--name <name>', 'what it is for', 'default')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      "\nExample:\n  berth key create 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --role member --name 'nightly import'",
    )
    .action(async (accountId: string, { role, name, json }: { role: Role; name: string } & Json) => {
      const created = await withDatabase((database) =>
        createKey({ database, clock, environment: environment() }, { accountId, role, name }),
      );
      const { id, account_id, key } = created;
      if (json) print(JSON.stringify({ id, account_id, role, key }));
      else print(`${key}\nThis is the ${role} key ${id}. It is not stored and cannot be shown again.`);
    });

  command
    .command('list')
    .description('List the keys of an account')
    .argument('<account-id>')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  berth key list 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10')
    .action(async (accountId: string, { json }: Json) => {
      const keys = await withDatabase((database) => listKeys(database, accountId));
      if (json) print(JSON.stringify(keys.map(shown)));
      else print(table(['ID', 'ROLE', 'CREATED', 'LAST USED', 'REVOKED', 'NAME'], keys.map(cells)));
    });

  command
    .command('revoke')
    .description('Revoke a key for good, from the next request on')
    .argument('<key-id>')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  berth key revoke 5e9a7a52-2f5f-4a52-9d51-0b1f0a5d8c3e')
    .action(async (keyId: string, { json }: Json) => {
      const key = await withDatabase((database) => revokeKey({ database, clock }, keyId));
      print(json ? JSON.stringify(shown(key)) : `Key ${key.id} is revoked since ${shownTime(key.revoked_at)}`);
    });

  return command;
}

function shown({ id, account_id, name, role, inserted_at, last_used_at, revoked_at }: ApiKey): object {
  const time = (at: number | null): string | null => (at === null ? null : formatMicros(at));
  return {
    id,
    account_id,
    name,
    role,
    inserted_at: time(inserted_at),
    last_used_at: time(last_used_at),
    revoked_at: time(revoked_at),
  };
}

function cells(key: ApiKey): string[] {
  return [
    key.id,
    key.role,
    shownTime(key.inserted_at),
    shownTime(key.last_used_at),
    shownTime(key.revoked_at),
    key.name,
  ];
}
