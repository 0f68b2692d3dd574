/** `berth directory set`: changes fields, the way to log in, the allowed networks, the expiry and the quota. */
import { Command, InvalidArgumentError } from 'commander';
import { formatMicros, parseMicros } from '../../foundation/base/clock.ts';
import { OperatorError } from '../../foundation/base/errors.ts';
import type { Invocation } from '../invocation.ts';
import { moment } from '../options.ts';
import { showAll } from './directory.ts';
import { authModeOption, type FieldOptions, fieldsOf, withFields } from './fields.ts';
import { type CommonOptions, named, onDirectory } from './named-directory.ts';

const HELP = `
An empty --description or --external-id removes the present one. Some options need several requests of the API, sent one
after the other: if one is refused, those before it stay in force.

Examples:
  berth directory set acme-corp --max-connections 20
  berth directory set acme-corp --auth-mode public_key --allow-network 192.0.2.0/24 --allow-network 2001:db8::/32
  berth directory set acme-corp --expires 2026-12-31T23:00Z --quota 10000000000`;

interface Options extends CommonOptions, FieldOptions {
  readonly name?: string;
  readonly authMode?: string;
  readonly expires?: string;
  readonly allowNetwork?: readonly string[];
  readonly quota?: number | 'none';
}

export function setCommand(invocation: Invocation): Command {
  return withFields(onDirectory(new Command('set').description('Change a directory')))
    .option('--name <name>', 'a new name; slug and username stay')
    .addOption(authModeOption())
    .option('--expires <time>', 'when it is suspended automatically; never removes the expiry', expiry)
    .option('--allow-network <cidr...>', 'allow logins from these networks only; everywhere removes the limit')
    .option('--quota <bytes>', 'how much it may store; none removes the limit', quota)
    .addHelpText('after', HELP)
    .action(async (text: string, options: Options) => {
      const found = await named(invocation, text, options);
      const warnings: string[] = [];
      const all = [...requests(options)];
      if (all.length === 0) throw new OperatorError('there is nothing to set: see berth directory set --help');
      for (const [method, path, body] of all) warnings.push(...(await found.ask(method, path, body)).warnings);
      await showAll(invocation, options, found, warnings);
    });
}

function* requests({ name, authMode, expires, allowNetwork, quota: bytes, ...rest }: Options) {
  const basics = { ...(name === undefined ? {} : { name }), ...fieldsOf(rest) };
  if (Object.keys(basics).length > 0) yield ['PATCH', '', { directory: basics }] as const;
  if (authMode !== undefined) yield ['PATCH', '', { directory: { auth_mode: authMode } }] as const;
  const access = {
    ...(expires === undefined ? {} : { expires_at: expires === 'never' ? null : expires }),
    ...(allowNetwork && { allowed_networks: allowNetwork.filter((network) => network !== 'everywhere') }),
  };
  if (Object.keys(access).length > 0) yield ['PATCH', '/access', access] as const;
  if (bytes !== undefined) yield ['PUT', '/quota', { max_bytes: bytes === 'none' ? null : bytes }] as const;
}

/** The time in the API's format, with seconds. */
function expiry(text: string): string {
  if (text === 'never' || parseMicros(text) !== undefined) return text;
  return formatMicros(moment(text, 'a time such as 2026-12-31T23:00Z, or never'));
}

/** Returns `none` instead of null, since commander takes null for an option without a value. */
function quota(text: string): number | 'none' {
  if (text === 'none') return text;
  const bytes = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(bytes)) return bytes;
  throw new InvalidArgumentError('It must be a number of bytes, or none.');
}
