/** `berth clock …` */
import { Command } from 'commander';
import { DAY, formatMicros } from '../base/clock.ts';
import { confirmClock } from '../db/clock-lead.ts';
import { withDatabase } from './database.ts';
import type { Invocation } from './invocation.ts';

export function clockCommand({ config, clock, print }: Invocation): Command {
  const command = new Command('clock')
    .description('The clock that decides how old files and history are')
    .addHelpText('after', '\nExample:\n  date && berth clock confirm');
  command
    .command('confirm')
    .description('Confirm that the clock is right, for example after the machine was off for more than a day')
    .addHelpText(
      'after',
      `
After a jump of more than a day the clock is in doubt: until it has gone back or is confirmed, nothing is removed for an
age that the jump gave it. The next hourly check uses the confirmed time.

Example:
  date && berth clock confirm`,
    )
    .action(async () => {
      const lead = await withDatabase(config(), (database) => confirmClock({ database, clock }));
      const was = lead === 0 ? 'it was not in doubt' : `it seemed ${(Math.abs(lead) / DAY).toFixed(1)} days off`;
      print(`${formatMicros(clock.now())} is right; ${was}`);
    });
  return command;
}
