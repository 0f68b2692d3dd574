/** `berth account webhook`: what the API does at /webhook, by the service that runs here. */
import { Command } from 'commander';
import { accountNamed } from '../accounts/accounts.ts';
import { OperatorError } from '../errors.ts';
import { withDatabase } from './database.ts';
import { table } from './directory/fields.ts';
import { type Answer, asking } from './directory/service.ts';
import type { Invocation } from './invocation.ts';

const HELP = `
Examples:
  berth account webhook 'Acme Corp'                                 show it
  berth account webhook 'Acme Corp' --url https://example.com/hook  set it; an empty one turns it off
  berth account webhook 'Acme Corp' --new-secret                    a next secret: signatures carry both from now on
  berth account webhook 'Acme Corp' --activate                      and this ends the old one`;

interface Options {
  readonly url?: string;
  readonly newSecret?: true;
  readonly activate?: true;
  readonly json?: true;
}

export function accountWebhookCommand(invocation: Invocation): Command {
  const { print, stderr } = invocation;
  return new Command('webhook')
    .description('Where uploads are announced of all directories without a webhook URL of their own')
    .argument('<account>', 'its id or name')
    .option('--url <url>', 'set the URL')
    .option('--new-secret', 'make a new secret, beside the old one')
    .option('--activate', 'end the old secret')
    .option('--json', 'print JSON')
    .addHelpText('after', HELP)
    .action(async (text: string, { url, newSecret, activate, json }: Options) => {
      if ([url, newSecret, activate].filter((option) => option !== undefined).length > 1)
        throw new OperatorError('--url, --new-secret and --activate are given one at a time');
      const account = await withDatabase(invocation.config(), ({ reads }) => accountNamed(reads, text));
      const ask = asking(invocation, account);
      const asked = (): Promise<Answer<Record<string, string | boolean | null>>> => {
        if (url !== undefined) return ask('PUT', '/webhook', { url: url === '' ? null : url });
        if (newSecret || activate) return ask('POST', '/webhook/secret', { activate: activate ?? false });
        return ask('GET', '/webhook');
      };
      const answer = await asked();
      for (const words of answer.warnings) stderr(`berth: ${words}\n`);
      print(json ? answer.json : table(answer.data).join('\n'));
    });
}
