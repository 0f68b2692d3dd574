/** `npm run torture -- swaps [--seconds 60]`: root's housekeeping against a user who swaps folders all the time. */
import { parseArgs } from 'node:util';
import { expectUntouched, swapFor } from './swapping.ts';

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '60' } } });
const result = await swapFor(Number(values.seconds));
process.stdout.write(`${JSON.stringify(result)}\n`);
expectUntouched(result);
