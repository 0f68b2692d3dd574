/** `berth directory webhook …` and `berth directory replay`. */
import { Command } from 'commander';
import { formatMicros, type Micros } from '../../foundation/base/clock.ts';
import { EVENT_KINDS } from '../../foundation/db/schema.ts';
import { OperatorError } from '../../foundation/base/errors.ts';
import type { Invocation } from '../invocation.ts';
import { since } from '../options.ts';
import { type DirectoryAnswer, table } from './fields.ts';
import { type CommonOptions, confirm, irrevocable, named, onDirectory, show } from './named-directory.ts';

const HELP = `
Examples:
  berth directory webhook show acme-corp
  berth directory webhook set acme-corp https://example.com/hook
  berth directory webhook off acme-corp                  no webhooks, even if the account has a URL
  berth directory webhook account acme-corp              use the account's URL
  berth directory webhook test acme-corp
  berth directory webhook events acme-corp file.deleted  choose events beside uploads
  berth directory webhook secret acme-corp               add a second secret: signatures carry both from now on
  berth directory webhook secret acme-corp --activate    end the old secret`;

interface SecretOptions extends CommonOptions {
  readonly activate?: true;
  readonly secret?: string;
}

type Fields = Readonly<Record<string, string | boolean | null>>;

interface Tested {
  readonly delivered: boolean;
  readonly status: number | null;
  readonly error: string | null;
  readonly duration_ms: number;
}

const FURTHER = EVENT_KINDS.filter((kind) => kind !== 'file.uploaded');

/** The events that a directory or an account has chosen, as the API shows them. */
export interface ChosenEvents {
  readonly events: readonly string[];
  readonly inherited: boolean;
}

/** The request's body for a command's arguments. */
export function eventsBody(kinds: readonly string[]): { readonly events: readonly string[] | null } {
  const [word] = kinds;
  if (kinds.length === 1 && word === 'account') return { events: null };
  return { events: kinds.length === 1 && word === 'none' ? [] : kinds };
}

export function eventLines({ events, inherited }: ChosenEvents): string[] {
  return inherited ? [...events, '(chosen by the account)'] : [...events];
}

export function webhookCommand(invocation: Invocation): Command {
  const command = new Command('webhook')
    .description('The webhook to which uploads are announced')
    .addHelpText('after', HELP);
  const url = ({ webhook_url, webhook_secret }: DirectoryAnswer): string[] => table({ webhook_url, webhook_secret });
  const change = async (text: string, options: CommonOptions, fields: Fields): Promise<void> => {
    const { ask } = await named(invocation, text, options);
    show(invocation, options, await ask<Fields>('PATCH', '/webhook', fields), table);
  };

  onDirectory(command.command('show').description('Show the URL and the signing secret'))
    .addHelpText('after', '\nExample:\n  berth directory webhook show acme-corp')
    .action(async (text: string, options: CommonOptions) => {
      const { ask } = await named(invocation, text, options);
      const directory = await ask<DirectoryAnswer>('GET', '');
      const { data: webhook } = await ask<Fields>('GET', '/webhook');
      show(invocation, options, directory, (data) => [...url(data), ...table({ sends_to: webhook['sends_to'] })]);
    });

  onDirectory(command.command('set').description("Set the URL; with an empty one the account's is used"))
    .argument('<url>')
    .addHelpText('after', '\nExample:\n  berth directory webhook set acme-corp https://example.com/hook')
    .action(async (text: string, given: string, options: CommonOptions) => {
      const { ask } = await named(invocation, text, options);
      const directory = { webhook_url: given === '' ? null : given };
      show(invocation, options, await ask<DirectoryAnswer>('PATCH', '', { directory }), url);
    });

  onDirectory(command.command('off').description('Send no webhooks, even if the account has a URL'))
    .addHelpText('after', '\nExample:\n  berth directory webhook off acme-corp')
    .action((text: string, options: CommonOptions) =>
      change(text, options, { webhook_url: null, uses_account_webhook: false }),
    );

  onDirectory(command.command('account').description("Remove the directory's URL and use the account's"))
    .addHelpText('after', '\nExample:\n  berth directory webhook account acme-corp')
    .action((text: string, options: CommonOptions) =>
      change(text, options, { webhook_url: null, uses_account_webhook: true }),
    );

  onDirectory(command.command('test').description("Send a test webhook, and show the receiver's answer"))
    .addHelpText('after', '\nExample:\n  berth directory webhook test acme-corp')
    .action(async (text: string, options: CommonOptions) => {
      const { ask } = await named(invocation, text, options);
      const answer = await ask<Tested>('POST', '/webhook/test');
      show(invocation, options, answer, (tested) => table({ ...tested }));
      if (!answer.data.delivered) throw new OperatorError('the receiver did not accept it');
    });

  onDirectory(command.command('events').description('Show or choose the events besides file.uploaded'))
    .argument('[event...]', `${FURTHER.join(', ')}; none for no others, account for the account's choice`)
    .addHelpText(
      'after',
      '\nExamples:\n  berth directory webhook events acme-corp\n  berth directory webhook events acme-corp file.deleted upload.failed',
    )
    .action(async (text: string, kinds: string[], options: CommonOptions) => {
      const { ask } = await named(invocation, text, options);
      const path = '/webhook/events';
      const answer = await (kinds.length === 0
        ? ask<ChosenEvents>('GET', path)
        : ask<ChosenEvents>('PUT', path, eventsBody(kinds)));
      show(invocation, options, answer, eventLines);
    });

  secretCommand(invocation, command.command('secret'));
  return command;
}

function secretCommand(invocation: Invocation, command: Command): void {
  irrevocable(onDirectory(command.description('Change the secret in two steps: add the next one, then --activate it')))
    .option('--activate', 'end the old secret, and sign with the next one alone')
    .option('--secret <text>', 'use this secret, 16 to 64 characters')
    .addHelpText(
      'after',
      '\nExamples:\n  berth directory webhook secret acme-corp\n  berth directory webhook secret acme-corp --activate --yes',
    )
    .action(async (text: string, options: SecretOptions) => {
      const { ask, directory } = await named(invocation, text, options);
      const activate = options.activate ?? false;
      if (activate) {
        await confirm(invocation, options, `End the old webhook secret of ${directory.sftp_username}?`);
      }
      const body = { activate, ...(options.secret === undefined ? {} : { secret: options.secret }) };
      const answer = await ask<Record<string, unknown>>('POST', '/webhook_secret', body);
      show(invocation, options, answer, (secret) => table(secret));
    });
}

interface ReplayOptions extends CommonOptions {
  readonly since?: Micros;
}

export function replayCommand(invocation: Invocation): Command {
  return onDirectory(new Command('replay').description('Send webhooks again'))
    .argument('[delivery]', 'the id of one, as berth deliveries shows it')
    .option('--since <time>', 'everything that failed since then: 30m, 12h, 7d, or a time', (text) =>
      since(text, invocation.clock.now()),
    )
    .addHelpText(
      'after',
      '\nExamples:\n  berth directory replay acme-corp 3f0c6c1e-8e0b-4f5b-9a53-2f1f7f0c2d11\n  berth directory replay acme-corp --since 2d',
    )
    .action(async (text: string, delivery: string | undefined, options: ReplayOptions) => {
      if ((delivery === undefined) === (options.since === undefined)) {
        throw new OperatorError(
          'name one delivery, or give --since to send everything again that has failed since then',
        );
      }
      const { ask } = await named(invocation, text, options);
      if (delivery !== undefined) {
        const answer = await ask<{ id: string }>('POST', `/deliveries/${encodeURIComponent(delivery)}/replay`);
        return show(invocation, options, answer, ({ id }) => [`${id} will be sent soon`]);
      }
      const body = { since: formatMicros(options.since ?? 0) };
      const answer = await ask<{ count: number }>('POST', '/deliveries/replay', body);
      return show(invocation, options, answer, ({ count }) => [`${count} will be sent again`]);
    });
}
