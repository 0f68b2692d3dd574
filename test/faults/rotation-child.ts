/**
 * One step of a rotation of host keys, in a process that dies after STEP durable steps.
 *
 *   node rotation-child.ts begin|finish|cancel STEP
 */
import { dieAfter } from './dying.ts';
import { readConfig } from '../../src/foundation/base/config.ts';
import { beginRotation, cancelRotation, finishRotation } from '../../src/machine/sftp/host-key-rotation.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';

const [operation = '', step = ''] = process.argv.slice(2);
const { hostKeys } = pathsOf(readConfig(process.env));
const operations: Record<string, () => Promise<void>> = {
  begin: () => beginRotation(hostKeys, ['ed25519', 'ecdsa']),
  finish: () => finishRotation(hostKeys),
  cancel: () => cancelRotation(hostKeys),
};
dieAfter(Number(step));
await operations[operation]?.();
process.stdout.write('finished');
