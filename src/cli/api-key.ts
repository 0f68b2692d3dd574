/** `berth key …` */
import { Command, Option } from 'commander';
import { accountNamed } from '../rules/accounts/accounts.ts';
import { type ApiKey, accountOfKey, createKey, listKeys, revokeKey, ROLES } from '../rules/api-keys/api-keys.ts';
import { type Actor, type Scope, scopeOf } from '../rules/accounts/actor.ts';
import { formatMicros, type Micros } from '../foundation/base/clock.ts';
import type { Role } from '../foundation/db/schema.ts';
import { operatorKeyId, operatorLogin } from '../foundation/base/operator-socket.ts';
import { shortTime } from '../foundation/base/text.ts';
import { sayingRefusals, withDatabase } from './database.ts';
import type { Invocation } from './invocation.ts';
import { collected, moment } from './options.ts';
import { fullTime, printRows, type RowStyle } from './rows.ts';

interface Json {
  readonly json?: true;
}

const STYLE: RowStyle<ApiKey> = {
  columns: {
    ID: ({ id }) => id,
    ROLE: ({ role }) => role,
    CREATED: ({ inserted_at }) => shortTime(inserted_at),
    'LAST USED': ({ last_used_at }) => shortTime(last_used_at),
    EXPIRES: ({ expires_at }) => shortTime(expires_at),
    REVOKED: ({ revoked_at }) => shortTime(revoked_at),
    LIMITS: (key) => limitsIn(scopeOf(key)),
    NAME: ({ name }) => name,
  },
  json: ({ inserted_at, last_used_at, revoked_at, expires_at, read_only, directories, ...key }) => ({
    ...key,
    inserted_at: fullTime(inserted_at),
    last_used_at: fullTime(last_used_at),
    revoked_at: fullTime(revoked_at),
    expires_at: fullTime(expires_at),
    read_only: read_only === 1,
    directories: directories === null ? null : (JSON.parse(directories) as unknown),
  }),
};

export function limitsIn({ isReadOnly, directories }: Scope): string | null {
  const count = directories?.size ?? 0;
  const which = count > 0 ? [`${count} ${count === 1 ? 'directory' : 'directories'}`] : [];
  return [...(isReadOnly ? ['read-only'] : []), ...which].join(', ') || null;
}

interface Limits {
  readonly readOnly?: true;
  readonly directory?: readonly string[];
  readonly expires?: Micros;
}

/** The limits in the form that the rules take. */
function limitFields({ readOnly, directory, expires }: Limits): object {
  return {
    ...(readOnly && { read_only: true }),
    ...(directory && { directories: directory }),
    ...(expires !== undefined && { expires_at: formatMicros(expires) }),
  };
}

export function apiKeyCommand({ config, clock, environment, print }: Invocation): Command {
  const by = (step: string): Actor => ({
    keyId: operatorKeyId(operatorLogin(environment)),
    requestId: '',
    route: `berth key ${step}`,
  });
  const command = new Command('key')
    .description('API keys')
    .addHelpText(
      'after',
      '\nExamples:\n  berth key create ACCOUNT_ID --role member\n  berth key list ACCOUNT_ID\n  berth key revoke KEY_ID',
    );

  command
    .command('create')
    .description('Create an API key. It is shown once.')
    .argument('<account>', 'its id or name')
    .addOption(
      new Option('--role <role>', 'what it may do: only admin changes auth settings').choices(ROLES).default('admin'),
    )
    .option('--name <name>', 'its purpose, for people', 'default')
    .option('--read-only', 'it may not change anything')
    .option('--directory <directory>', 'limit it to this directory, by id or SFTP username; repeatable', collected)
    .option('--expires <time>', 'when it expires, such as 2027-01-01 or 2027-01-01T08:00Z', (text) =>
      moment(text, 'a time such as 2027-01-01'),
    )
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      "\nExample:\n  berth key create 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --role member --name 'nightly import'",
    )
    .action(async (text: string, { role, name, json, ...limits }: { role: Role; name: string } & Limits & Json) => {
      const settings = config();
      const { id, account_id, key } = await withDatabase(settings, async (database) => {
        const accountId = await accountNamed(database.reads, text);
        const target = { accountId, actor: by('create') };
        const fields = { ...limitFields(limits), role, name };
        return sayingRefusals(() => createKey({ database, clock, config: settings }, target, fields));
      });
      if (json) print(JSON.stringify({ id, account_id, role, key }));
      else print(`${key}\nThis is the ${role} key ${id}. It is not stored and cannot be shown again.`);
    });

  command
    .command('list')
    .description('List the keys of an account')
    .argument('<account>', 'its id or name')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  berth key list 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10')
    .action(async (text: string, { json }: Json) => {
      const keys = await withDatabase(config(), async (database) =>
        listKeys(database, await accountNamed(database.reads, text)),
      );
      printRows(keys, STYLE, { print, json });
    });

  command
    .command('revoke')
    .description('Revoke a key for good, from the next request on')
    .argument('<key-id>')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  berth key revoke 5e9a7a52-2f5f-4a52-9d51-0b1f0a5d8c3e')
    .action(async (keyId: string, { json }: Json) => {
      const key = await withDatabase(config(), async (database) => {
        const accountId = await accountOfKey(database.reads, keyId);
        return revokeKey({ database, clock }, { accountId, actor: by('revoke') }, keyId);
      });
      print(json ? JSON.stringify(STYLE.json(key)) : `Key ${key.id} is revoked, since ${shortTime(key.revoked_at)}`);
    });

  return command;
}
