/** Finds the directory that a command names, and asks whether to go on. */
import { accountNamed } from '../../rules/accounts/accounts.ts';
import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { OperatorError } from '../../foundation/base/errors.ts';
import { directoriesNamed, type NamedDirectory } from '../../operating/reports/named.ts';
import { columns, escaped } from '../../foundation/base/text.ts';
import { withDatabase } from '../database.ts';
import { Interruption, type Invocation } from '../invocation.ts';
import { type Answer, type Ask, asking } from './service.ts';

export interface CommonOptions {
  readonly account?: string;
  readonly json?: true;
  readonly yes?: true;
}

/** One directory, and its API for its account. */
export interface Named {
  readonly directory: NamedDirectory;
  /** Paths are below the directory's own. */
  readonly ask: Ask;
}

/** Adds the argument that names a directory, and the options for it. */
export function onDirectory(command: Command): Command {
  return command
    .argument('<directory>', 'its id, SFTP username, external id, slug or name')
    .option('--account <account>', 'look for it in this account only, by its id or name')
    .option('--json', 'print JSON: the data of the API');
}

/** Adds `--yes`. */
export function irrevocable(command: Command): Command {
  return command.option('--yes', 'do not ask, although it cannot be undone');
}

/** @throws {OperatorError} when no directory has that name, or several have it, which are then listed on standard error. */
export async function named(invocation: Invocation, text: string, { account }: CommonOptions): Promise<Named> {
  const found = await withDatabase(invocation.config(), async (database) =>
    directoriesNamed(database, text, account === undefined ? undefined : await accountNamed(database.reads, account)),
  );
  const [directory] = found;
  const shown = escaped(JSON.stringify(text));
  if (!directory) throw new OperatorError(`there is no directory ${shown}: see berth directory list`);
  if (found.length > 1) {
    const lines = found.map((each) => [each.id, each.sftp_username, each.account_id, each.external_id, each.name]);
    for (const line of columns()([['ID', 'USERNAME', 'ACCOUNT', 'EXTERNAL ID', 'NAME'], ...lines])) {
      invocation.stderr(`${line}\n`);
    }
    throw new OperatorError(`${found.length} directories are called ${shown}: use an id or username`);
  }
  const ask = asking(invocation, directory.account_id);
  return { directory, ask: (method, path, body) => ask(method, `/directories/${directory.id}${path}`, body) };
}

/**
 * Asks at the terminal.
 * @throws {OperatorError} without a terminal. @throws {Interruption} when the answer is no.
 */
export async function confirm({ stderr }: Invocation, { yes }: CommonOptions, question: string): Promise<void> {
  if (yes) return;
  if (!process.stdin.isTTY)
    throw new OperatorError('this cannot be undone, and there is no terminal to ask on: add --yes');
  stderr(`${escaped(question)} [y/N] `);
  const answer = await firstLine();
  if (!/^y(es)?$/i.test(answer.trim())) throw new Interruption('nothing has changed', 1);
}

/** The first line of standard input; empty when there is none. */
async function firstLine(): Promise<string> {
  for await (const line of createInterface({ input: process.stdin })) return line;
  return '';
}

/** Prints the answer's JSON, or the lines that `lines` makes from it, and its warnings. */
export function show<Data>(
  { print, stderr }: Invocation,
  { json }: CommonOptions,
  answer: Answer<Data>,
  lines: (data: Data) => Iterable<string>,
): void {
  for (const words of answer.warnings) stderr(`berth: warning: ${words}\n`);
  if (json) return print(answer.json);
  for (const line of lines(answer.data)) print(line);
}
