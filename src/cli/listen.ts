/** `berth listen`: runs a receiver for a directory's webhooks. */
import { once } from 'node:events';
import { Command, InvalidArgumentError } from 'commander';
import type { ListenArguments } from '../listen/run.ts';
import type { Invocation } from './invocation.ts';
import { integer } from './options.ts';

const HELP = `
Examples:
  berth listen                           show each webhook, and whether its signature is right
  berth listen --port 9001 --fail 500    answer 500, to see four attempts
  berth listen --delay 6                 answer too late: berth waits for 5 seconds
  berth listen --secret "$SECRET"        check with this secret instead of looking it up in the database

To send a directory's webhooks here: PATCH {"directory": {"webhook_url": "http://127.0.0.1:9000/"}}.
berth serve sends to this machine only with BERTH_WEBHOOK_ALLOW=127.0.0.0/8.`;

export function listenCommand(invocation: Invocation): Command {
  return new Command('listen')
    .description('Receive webhooks on this machine and show them')
    .option('--port <port>', 'port on 127.0.0.1', integer(0, 65_535), 9000)
    .option('--fail <status>', 'answer with this status instead of 200', integer(200, 599), 200)
    .option('--delay <seconds>', 'wait before answering', seconds, 0)
    .option('--secret <secret>', "the directory's webhook_secret")
    .addHelpText('after', HELP)
    .action(async (options: ListenArguments) => {
      const { runListen } = await import('../listen/run.ts');
      const { config, stdout } = invocation;
      const stop = invocation.catchSignals();
      const stopped = async (): Promise<unknown> => stop.aborted || once(stop, 'abort');
      await runListen(options, { database: () => config().database, stdout, stopped });
    });
}

function seconds(text: string): number {
  if (/^\d{1,4}(\.\d+)?$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a number of seconds such as 6.');
}
