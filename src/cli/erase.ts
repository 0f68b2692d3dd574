/** `berth erase`: removes a customer's personal data from the history. */
import { randomUUID } from 'node:crypto';
import { Command } from 'commander';
import { accountNamed } from '../rules/accounts/accounts.ts';
import { OperatorError } from '../foundation/base/errors.ts';
import { eraseHistory } from '../rules/history/removal.ts';
import { operatorKeyId, operatorLogin } from '../foundation/base/operator-socket.ts';
import { directoryKnown } from '../operating/reports/named.ts';
import { counted, escaped } from '../foundation/base/text.ts';
import { withDatabase } from './database.ts';
import { confirm, irrevocable } from './directory/named-directory.ts';
import type { Invocation } from './invocation.ts';

const HELP = `
Removes file names, addresses and usernames from transfers, logins, sent webhooks, the feed of events and the audit; for an
account also its users' networks. Present files and unsent webhooks stay: delete the directory first to erase everything.
The audit records who erased the history. docs/personal-data.md lists other places with personal data.

Examples:
  berth directory delete acme-corp && berth erase acme-corp-x7k2m9qa
  berth erase --account 'Acme Corp' --yes`;

interface Options {
  readonly account?: string;
  readonly yes?: true;
  readonly json?: true;
}

export function eraseCommand(invocation: Invocation): Command {
  const { config, clock, environment, print, catchSignals } = invocation;
  return irrevocable(new Command('erase').description('Remove file names, addresses and usernames from the history'))
    .argument('[directory]', 'its id or SFTP username, also of a deleted one')
    .option('--account <account>', 'all directories that this account has or had, by its id or name')
    .option('--json', 'print JSON')
    .addHelpText('after', HELP)
    .action(async (directory: string | undefined, options: Options) => {
      const settings = config();
      await withDatabase(settings, async (database) => {
        const { what, accountId, shown } = await named(database, directory, options.account);
        await confirm(invocation, options, `Erase the history of ${shown}?`);
        const keyId = operatorKeyId(operatorLogin(environment));
        const actor = { keyId, requestId: randomUUID(), route: 'berth erase' };
        const erased = await eraseHistory({ database, clock }, { accountId, actor }, what, catchSignals());
        await database.emptyLog();
        if (options.json) return print(JSON.stringify(erased));
        const { transfers, logins, deliveries, events, networks, audit } = erased;
        print(
          escaped(
            `Erased of ${shown}: ${counted(transfers, 'transfer')}, ${counted(logins, 'login')}, ${counted(deliveries, 'webhook')} and ${counted(networks, 'network')} of users; ${counted(events, 'event')} and ${counted(audit, 'row')} of the audit lost their names`,
          ),
        );
        for (const line of REMAINS) print(line);
      });
    });
}

/** Where copies remain that no command of berth can erase. */
const REMAINS = [
  'It is still in backups that were made before (berth-backup.timer keeps 14), and in berth.db.before-* beside the database.',
  "sshd's lines stay in the journal: journalctl --vacuum-time=30d removes those older than 30 days. In a container they are in sshd-log/ of BERTH_STATE_DIR.",
  'Receivers still have their webhooks. The SFTP username stays reserved, so that no other directory gets it.',
];

type Databases = Parameters<typeof directoryKnown>[0];

async function named(database: Databases, directory: string | undefined, account: string | undefined) {
  if ((directory === undefined) === (account === undefined)) {
    throw new OperatorError('give either a directory or --account');
  }
  if (account !== undefined) {
    const id = await accountNamed(database.reads, account);
    return { what: { account: id }, accountId: id, shown: `account ${id}` };
  }
  const found = await directoryKnown(database, directory ?? '');
  if (!found) throw new OperatorError(`berth knows no directory ${JSON.stringify(directory)}: see berth directories`);
  const shown = found.sftp_username === '' ? found.id : `${found.sftp_username} (${found.id})`;
  return { what: { directory: found.id }, accountId: found.account_id, shown };
}
