/** The shell completion and the man page have every command and option of the command line. `BERTH_WRITE=1` writes the completion. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import type { Command } from 'commander';
import { systemClock } from '../../../src/foundation/base/clock.ts';
import { invoke } from '../../../src/cli/invocation.ts';
import { commandLine } from '../../../src/cli/program.ts';

const COMPLETION = new URL('../../../packaging/completion', import.meta.url);
const PAGE = new URL('../../../packaging/berth.8', import.meta.url);

/** A command with the words that may follow it. */
interface Entry {
  /** As it is typed: `berth account create`. */
  readonly path: string;
  readonly commands: readonly string[];
  readonly options: readonly string[];
  /** Choices of its arguments. */
  readonly choices: readonly string[];
  /** Options with a value, and its choices: none if it can be anything. */
  readonly values: ReadonlyMap<string, readonly string[]>;
}

const ENTRIES = entries(
  commandLine(invoke({}, systemClock()), () => undefined),
  'berth',
);

/** An option has the same choices wherever it is: the completion looks them up by its name alone. */
const VALUES = new Map(
  ENTRIES.flatMap(({ values }) => [...values].map(([option, choices]) => [option, choices.join(' ')] as const)),
);

function entries(command: Command, path: string): Entry[] {
  const helper = command.createHelp();
  const children = helper.visibleCommands(command);
  const options = helper
    .visibleOptions(command)
    .flatMap(({ long, argChoices = [], required, optional }) =>
      long ? [{ long, argChoices, hasValue: required || optional }] : [],
    );
  const entry: Entry = {
    path,
    commands: children.map((child) => child.name()),
    options: options.map(({ long }) => long),
    choices: command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices),
    values: new Map(options.filter(({ hasValue }) => hasValue).map(({ long, argChoices }) => [long, argChoices])),
  };
  // `berth help` takes a command's name.
  return [
    entry,
    ...children.flatMap((child) => (child.name() === 'help' ? [] : entries(child, `${path} ${child.name()}`))),
  ];
}

function completion(): string {
  const words = ENTRIES.map(
    ({ path, commands, choices, options }) => `  ['${path}']='${[...commands, ...choices, ...options].join(' ')}'`,
  );
  const values = [...VALUES]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([option, choices]) => `  [${option}]='${choices}'`);
  return readFileSync(COMPLETION, 'utf8')
    .replace(/(_berth_words=\(\n)[^]*?(?=^\)$)/m, (_, head: string) => `${head}${words.join('\n')}\n`)
    .replace(/(_berth_values=\(\n)[^]*?(?=^\)$)/m, (_, head: string) => `${head}${values.join('\n')}\n`);
}

/** What Tab offers after these words; the last one is incomplete. */
function offered(...words: string[]): string[] {
  const script = `. "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _berth; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr } = spawnSync('bash', ['-uc', script, 'bash', COMPLETION.pathname, 'berth', ...words], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'], // bash takes a socket for a remote shell's
  });
  assert.equal(stderr, '');
  return stdout.split('\n').filter(Boolean);
}

test('the shell completion has every command, option and choice', () => {
  const expected = completion();
  if (process.env['BERTH_WRITE'] === '1') writeFileSync(COMPLETION, expected);
  assert.equal(readFileSync(COMPLETION, 'utf8'), expected);
  assert.ok(ENTRIES.length > 70);
  const others = ENTRIES.flatMap(({ path, options, values }) =>
    options
      .filter((option) => values.get(option)?.join(' ') !== VALUES.get(option))
      .map((option) => `${path} ${option}`),
  );
  assert.deepEqual(others, [], 'options with other choices than the same option elsewhere');
});

test('Tab offers commands, options and choices, also after an account or a directory', () => {
  assert.deepEqual(offered('ac'), ['account']);
  assert.deepEqual(offered('account', 'cr'), ['create']);
  assert.deepEqual(offered('account', 'create', 'Acme Corp', '--'), ['--plan', '--json', '--help']);
  assert.deepEqual(offered('account', 'create', '--plan', 'b'), ['business']);
  assert.deepEqual(offered('account', 'set-plan', '0f2c6f0e', 'b'), ['business']);
  assert.deepEqual(offered('directory', 'link', 'upload', 'acme', 'in/', '--m'), ['--max-bytes']);
  assert.deepEqual(offered('directory', 'set', 'list', '--auth-mode', 'b'), ['both']);
  assert.deepEqual(offered('help', 'tr'), ['transfers']);
  assert.deepEqual(offered('restore', '--settings-of', ''), ['backup', 'machine']);
  assert.deepEqual(offered('backup', '--settings', ''), [], 'the shell offers files');
  assert.deepEqual(offered('key', 'create', '--directory', 'a', '--directory', ''), [], 'a value comes next');
});

test('the man page has every command with its options', () => {
  const [, commands = ''] = /^\.SH COMMANDS\n([^]*?)^\.SH /m.exec(readFileSync(PAGE, 'utf8')) ?? [];
  // Each entry begins with the commands that it is about.
  const sections = commands
    .replaceAll('\\-', '-')
    .replaceAll(/\\f[BIRP]/g, '')
    .split(/^\.TP$/m)
    .map((text) => ({ text, names: [...text.matchAll(/^\.B (.+)$/gm)].map(([, name = '']) => name) }));
  const lacking = ENTRIES.flatMap(({ path, commands: children, options }) => {
    const [, first = '', ...others] = path.split(' ');
    if (first === '') return [];
    const about = sections.filter(({ names }) => names.some((name) => name.split(/,? /).includes(first)));
    const text = about.map((section) => section.text).join('\n');
    const has = (word: string): boolean => new RegExp(`(?<![\\w-])${word}(?![\\w-])`).test(text);
    const needed = children.length > 0 ? others : [...others, ...options.filter((option) => !UNIVERSAL.has(option))];
    return [first, ...needed].filter((word) => !has(word)).map((word) => `${path}: ${word}`);
  });
  assert.deepEqual(lacking, []);
});

/** The beginning of the man page names these once for all commands. */
const UNIVERSAL = new Set(['--help', '--json']);
