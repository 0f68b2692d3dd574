/** `berth directory create` */
import { Command } from 'commander';
import { accountNamed, listAccounts, requireAccount } from '../../rules/accounts/accounts.ts';
import type { Database } from '../../foundation/db/open.ts';
import { OperatorError } from '../../foundation/base/errors.ts';
import { withDatabase } from '../database.ts';
import type { Invocation } from '../invocation.ts';
import { integer } from '../options.ts';
import {
  type FieldOptions,
  fieldsOf,
  readKey,
  sftpCommand,
  type DirectoryAnswer,
  table,
  withFields,
} from './fields.ts';
import { type Answer, type Ask, asking } from './service.ts';
import { type CommonOptions, show } from './named-directory.ts';

const HELP = `
This is the only time the password is shown. With --public-key, its user can log in with the key or the password.

Examples:
  berth directory create 'Acme Corp' --account 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10
  berth directory create Acme --account ID --external-id cust-42 --webhook https://example.com/hook --public-key id.pub`;

interface Options extends CommonOptions, FieldOptions {
  readonly account?: string;
  readonly retentionDays?: number;
  readonly webhook?: string;
  readonly publicKey?: string;
}

export function createCommand(invocation: Invocation): Command {
  return withFields(
    new Command('create').description('Create a directory, and show its password; logins work immediately'),
  )
    .argument('<name>', 'the name of the directory')
    .option('--account <account>', 'its account, by id or name; optional if there is only one')
    .option('--retention-days <days>', 'delete files after this number of days; 0 keeps them', integer(0, 36_500))
    .option('--webhook <url>', 'the URL to which its uploads are announced')
    .option('--public-key <file>', 'an OpenSSH public key that may log in; - is standard input')
    .option('--json', 'print JSON: the data of the API')
    .addHelpText('after', HELP)
    .action(async (name: string, options: Options) => {
      const key = options.publicKey === undefined ? undefined : readKey(options.publicKey);
      const account = await withDatabase(invocation.config(), (database) => accountOf(database, options.account));
      const ask = asking(invocation, account);
      const fields = { name, ...fieldsOf(options), ...retention(options) };
      const created = await ask<DirectoryAnswer>('POST', '/directories', { directory: fields });
      const changes = [
        ...(options.webhook === undefined ? [] : [{ webhook_url: options.webhook }]),
        ...(key === undefined ? [] : [{ public_key: key, auth_mode: 'both' }]),
      ];
      const { answer, failure } = await changed(ask, created, changes);
      show(invocation, options, answer, linesOf);
      if (failure) {
        throw new OperatorError(
          `the directory ${created.data.id} was created, but some settings failed: ${failure.message}`,
        );
      }
    });
}

async function accountOf({ reads }: Pick<Database, 'reads'>, given: string | undefined): Promise<string> {
  if (given !== undefined) {
    const id = await accountNamed(reads, given);
    await requireAccount(reads, id);
    return id;
  }
  const [only, ...others] = await listAccounts({ reads });
  if (only && others.length === 0) return only.id;
  throw new OperatorError('there are several accounts: choose one with --account (see berth account list)');
}

function retention({ retentionDays }: Options): object {
  return retentionDays === undefined ? {} : { retention_days: retentionDays };
}

/** Applies the changes. From here on the password has to be shown, so a failure is printed beside it. */
async function changed(ask: Ask, created: Answer<DirectoryAnswer>, changes: readonly object[]) {
  const { id, sftp_password } = created.data;
  let answer = created;
  try {
    for (const directory of changes) {
      const { data, warnings } = await ask<DirectoryAnswer>('PATCH', `/directories/${id}`, { directory });
      const all = { ...data, sftp_password };
      answer = { data: all, json: JSON.stringify(all), warnings: [...answer.warnings, ...warnings] };
    }
    return { answer };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { answer, failure: error };
  }
}

function linesOf(directory: DirectoryAnswer): string[] {
  const { id, sftp_username, sftp_password } = directory;
  const shown = { id, username: sftp_username, password: `${sftp_password} (shown once)` };
  return table({ ...shown, webhook: directory.webhook_url, connect: sftpCommand(directory) });
}
