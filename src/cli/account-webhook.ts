/** `berth account webhook`: what the API does at /webhook, through the service that runs here. */
import { Command } from 'commander';
import { accountNamed } from '../rules/accounts/accounts.ts';
import { OperatorError } from '../foundation/base/errors.ts';
import { withDatabase } from './database.ts';
import { table } from './directory/fields.ts';
import { type Answer, asking } from './directory/service.ts';
import { type ChosenEvents, eventLines, eventsBody } from './directory/webhook.ts';
import type { Invocation } from './invocation.ts';

const HELP = `
Examples:
  berth account webhook 'Acme Corp'                                 show it
  berth account webhook 'Acme Corp' --url https://example.com/hook  set the URL; an empty one turns it off
  berth account webhook 'Acme Corp' --events file.deleted,upload.failed   choose events beside uploads; none for no others
  berth account webhook 'Acme Corp' --new-secret                    add a second secret: signatures carry both from now on
  berth account webhook 'Acme Corp' --activate                      end the old secret`;

interface Options {
  readonly url?: string;
  readonly newSecret?: true;
  readonly activate?: true;
  readonly events?: string;
  readonly json?: true;
}

export function accountWebhookCommand(invocation: Invocation): Command {
  const { print, stderr } = invocation;
  return new Command('webhook')
    .description('The webhook for all directories without a webhook URL of their own')
    .argument('<account>', 'its id or name')
    .option('--url <url>', 'set the URL')
    .option('--new-secret', 'make a new secret, beside the old one')
    .option('--activate', 'end the old secret')
    .option('--events <list>', 'choose the events besides file.uploaded, separated by commas; none for no others')
    .option('--json', 'print JSON')
    .addHelpText('after', HELP)
    .action(async (text: string, { url, newSecret, activate, events, json }: Options) => {
      if ([url, newSecret, activate, events].filter((option) => option !== undefined).length > 1)
        throw new OperatorError('use only one of --url, --new-secret, --activate and --events');
      const account = await withDatabase(invocation.config(), ({ reads }) => accountNamed(reads, text));
      const ask = asking(invocation, account);
      if (events !== undefined) {
        const chosen = await ask<ChosenEvents>('PUT', '/webhook/events', eventsBody(events.split(',')));
        for (const words of chosen.warnings) stderr(`berth: ${words}\n`);
        return print(json ? chosen.json : eventLines(chosen.data).join('\n'));
      }
      const request = (): Promise<Answer<Record<string, string | boolean | null>>> => {
        if (url !== undefined) return ask('PUT', '/webhook', { url: url === '' ? null : url });
        if (newSecret || activate) return ask('POST', '/webhook/secret', { activate: activate ?? false });
        return ask('GET', '/webhook');
      };
      const answer = await request();
      for (const words of answer.warnings) stderr(`berth: ${words}\n`);
      print(json ? answer.json : table(answer.data).join('\n'));
    });
}
