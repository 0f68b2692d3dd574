/** `berth user …`: works on the database, whether or not the service runs. */
import { Argument, Command, Option } from 'commander';
import { accountNamed, requireAccount } from '../rules/accounts/accounts.ts';
import { type Actor, scopeOf } from '../rules/accounts/actor.ts';
import { ROLES } from '../rules/api-keys/api-keys.ts';
import type { Config } from '../foundation/base/config.ts';
import type { Store } from '../foundation/context.ts';
import type { Database } from '../foundation/db/open.ts';
import type { Role } from '../foundation/db/schema.ts';
import { OperatorError } from '../foundation/base/errors.ts';
import { operatorKeyId, operatorLogin } from '../foundation/base/operator-socket.ts';
import { shortTime } from '../foundation/base/text.ts';
import { dashboardUrl, linkPath } from '../rules/users/password-links.ts';
import { resetSecondFactor } from '../rules/users/second-factor.ts';
import {
  createUser,
  directoriesOf,
  listUsers,
  resetPassword,
  setDisabled,
  setRights,
  type User,
  type UserTarget,
  usersByEmail,
} from '../rules/users/users.ts';
import { sayingRefusals, withDatabase } from './database.ts';
import type { Invocation } from './invocation.ts';
import { limitsIn } from './api-key.ts';
import { collected } from './options.ts';
import { fullTime, printRows, type RowStyle } from './rows.ts';

const HELP = `
A link sets its user's password. It works once, within 24 hours, and only until there is a newer one. Changes take effect at
the user's next request. Only an admin may change keys, users and how people log in to directories.

Examples:
  berth user create ann@example.com --account ACCOUNT_ID --role admin
  berth user list
  berth user reset ann@example.com`;

interface Json {
  readonly json?: true;
}

interface Named extends Json {
  readonly account?: string;
}

function stateOf({ disabled_at, has_password }: User): string {
  if (disabled_at !== null) return 'disabled';
  return has_password ? 'active' : 'invited';
}

const STYLE: RowStyle<User> = {
  columns: {
    EMAIL: ({ email }) => email,
    ROLE: ({ role }) => role,
    STATE: stateOf,
    '2ND FACTOR': ({ has_second_factor }) => (has_second_factor ? 'yes' : 'no'),
    CREATED: ({ inserted_at }) => shortTime(inserted_at),
    'SIGNED IN': ({ signed_in_at }) => shortTime(signed_in_at),
    LIMITS: (user) => limitsIn(scopeOf(user)),
    ACCOUNT: ({ account_id }) => account_id,
  },
  json: (user) => ({
    id: user.id,
    account_id: user.account_id,
    email: user.email,
    role: user.role,
    state: stateOf(user),
    second_factor: Boolean(user.has_second_factor),
    read_only: user.read_only === 1,
    directories: directoriesOf(user),
    inserted_at: fullTime(user.inserted_at),
    signed_in_at: fullTime(user.signed_in_at),
    disabled_at: fullTime(user.disabled_at),
  }),
};

export function userCommand(invocation: Invocation): Command {
  return new Command('user')
    .description('Users of the dashboard')
    .addHelpText('after', HELP)
    .addCommand(createCommand(invocation))
    .addCommand(listCommand(invocation))
    .addCommand(setRoleCommand(invocation))
    .addCommand(setLimitsCommand(invocation))
    .addCommand(stateCommand(invocation, 'disable', true))
    .addCommand(stateCommand(invocation, 'enable', false))
    .addCommand(resetCommand(invocation));
}

function createCommand(invocation: Invocation): Command {
  const { config, clock } = invocation;
  return new Command('create')
    .description('Create a user, and print the link that sets the password')
    .argument('<email>', 'the email to sign in with')
    .requiredOption('--account <account>', 'the account that the user belongs to, by its id or name')
    .addOption(new Option('--role <role>', 'what the user may do').choices(ROLES).makeOptionMandatory())
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExample:\n  berth user create ann@example.com --account 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --role admin',
    )
    .action(async (email: string, { account, role, json }: { account: string; role: Role } & Json) => {
      const settings = config();
      const created = await withDatabase(settings, async (database) => {
        const accountId = await accountNamed(database.reads, account);
        const target = { accountId, actor: actorOf(invocation, 'create') };
        return sayingRefusals(() => createUser({ database, clock }, target, { email, role }));
      });
      printLink(invocation, settings, created, json);
    });
}

function listCommand({ config, print }: Invocation): Command {
  return new Command('list')
    .description('List users')
    .option('--account <account>', 'only those of this account, by its id or name')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  berth user list --account 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10')
    .action(async ({ account, json }: { account?: string } & Json) => {
      const found = await withDatabase(config(), async ({ reads }) => {
        if (account === undefined) return listUsers(reads, account);
        const id = await accountNamed(reads, account);
        await requireAccount(reads, id);
        return listUsers(reads, id);
      });
      printRows(found, STYLE, { print, json });
    });
}

function setRoleCommand(invocation: Invocation): Command {
  return changeCommand('set-role', "Change what a user may do, and end the user's sessions")
    .addArgument(new Argument('<role>').choices(ROLES))
    .addHelpText('after', '\nExample:\n  berth user set-role ann@example.com member')
    .action((email: string, role: Role, { account, json }: Named) =>
      changed(invocation, { email, account }, json, 'set-role', (context, target) =>
        setRights(context, target, { role }),
      ),
    );
}

interface LimitOptions extends Named {
  readonly readOnly?: true;
  readonly directory?: readonly string[];
  readonly none?: true;
}

function setLimitsCommand(invocation: Invocation): Command {
  return changeCommand(
    'set-limits',
    'Limit a user to reading, to some directories, or to both; replaces earlier limits',
  )
    .option('--read-only', 'the user may not change anything')
    .option('--directory <directory>', 'only this directory, by id or SFTP username; repeatable', collected)
    .option('--none', 'no limits')
    .addHelpText(
      'after',
      '\nExamples:\n  berth user set-limits ann@example.com --read-only --directory acme-corp-x7k2m9qa\n  berth user set-limits ann@example.com --none',
    )
    .action((email: string, { account, json, none, readOnly, directory }: LimitOptions) => {
      const isLimited = readOnly !== undefined || directory !== undefined;
      if (isLimited === (none !== undefined))
        throw new OperatorError('say which limits: --read-only, --directory, or --none');
      const limits = { read_only: readOnly ?? false, directories: directory ?? null };
      return changed(invocation, { email, account }, json, 'set-limits', (context, target) =>
        setRights(context, target, limits),
      );
    });
}

function stateCommand(invocation: Invocation, name: 'disable' | 'enable', isDisabled: boolean): Command {
  const description = isDisabled ? "Refuse a user's sign-in, and end the user's sessions" : 'Let a user sign in again';
  return changeCommand(name, description)
    .addHelpText('after', `\nExample:\n  berth user ${name} ann@example.com`)
    .action((email: string, { account, json }: Named) =>
      changed(invocation, { email, account }, json, name, (context, target) =>
        setDisabled(context, target, isDisabled),
      ),
    );
}

function resetCommand(invocation: Invocation): Command {
  const { config, clock } = invocation;
  return changeCommand('reset', "End a user's password and sessions, and print a link for a new password")
    .option('--second-factor', 'remove the second factor, too, for a user who has lost it')
    .addHelpText(
      'after',
      '\nExamples:\n  berth user reset ann@example.com\n  berth user reset ann@example.com --second-factor',
    )
    .action(async (email: string, { account, secondFactor, json }: { secondFactor?: true } & Named) => {
      const settings = config();
      const reset = await withDatabase(settings, async (database) => {
        const user = await namedUser(database, { email, account });
        const target = targetOf(invocation, user, 'reset');
        // In this order, an interrupted command never leaves the old password as the only factor.
        const token = await resetPassword({ database, clock }, target);
        if (secondFactor) await resetSecondFactor({ database, clock }, target);
        return { ...user, token };
      });
      printLink(invocation, settings, reset, json);
      if (reset.disabled_at !== null)
        invocation.stderr(`berth: ${reset.email} is disabled: the link works after berth user enable ${reset.email}\n`);
    });
}

function changeCommand(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .argument('<email>')
    .option('--account <id>', 'the account of the user, if several have this email')
    .option('--json', 'print JSON');
}

/** Makes the change, and prints the user afterwards. */
async function changed(
  invocation: Invocation,
  named: { readonly email: string; readonly account?: string | undefined },
  json: true | undefined,
  step: string,
  change: (context: Store, target: UserTarget) => Promise<void>,
): Promise<void> {
  const user = await withDatabase(invocation.config(), async (database) => {
    const found = await namedUser(database, named);
    const context = { database, clock: invocation.clock };
    await sayingRefusals(() => change(context, targetOf(invocation, found, step)));
    return namedUser(database, { email: found.email, account: found.account_id });
  });
  const limits = limitsIn(scopeOf(user));
  const rights = `with the role ${user.role}${limits === null ? '' : ` (${limits})`}`;
  invocation.print(json ? JSON.stringify(STYLE.json(user)) : `${user.email} is ${stateOf(user)}, ${rights}`);
}

async function namedUser(
  { db }: Pick<Database, 'db'>,
  { email, account }: { readonly email: string; readonly account?: string | undefined },
): Promise<User> {
  const all = await usersByEmail(db, email);
  const [user, ...others] = account === undefined ? all : all.filter(({ account_id }) => account_id === account);
  if (!user) throw new OperatorError(`there is no user ${JSON.stringify(email)}: see berth user list`);
  if (others.length === 0) return user;
  const accounts = all.map(({ account_id }) => account_id).join(', ');
  throw new OperatorError(`several accounts have a user ${JSON.stringify(email)}: add --account, one of ${accounts}`);
}

function actorOf({ environment }: Invocation, step: string): Actor {
  return { keyId: operatorKeyId(operatorLogin(environment)), requestId: '', route: `berth user ${step}` };
}

function targetOf(invocation: Invocation, { id: userId, account_id: accountId }: User, step: string): UserTarget {
  return { accountId, userId, actor: actorOf(invocation, step), mayLeaveNoAdmin: true };
}

function printLink(
  { print, stderr }: Invocation,
  config: Config,
  { id, email, token }: { readonly id: string; readonly email: string; readonly token: string },
  json: true | undefined,
): void {
  const link = `${dashboardUrl(config)}${linkPath(token)}`;
  print(
    json ? JSON.stringify({ id, email, link }) : `${link}\n${email} can set a password there once, within 24 hours.`,
  );
  if (!config.dashboard.isOn) stderr('berth: the dashboard is off (BERTH_DASHBOARD): the link works once it is on\n');
}
