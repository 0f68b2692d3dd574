/** The thread behind `password-stock.ts`: makes as many passwords with hashes as each message asks for. */
import { setPriority } from 'node:os';
import { setImmediate } from 'node:timers/promises';
import { parentPort } from 'node:worker_threads';
import { newCredential } from './credentials.ts';

// Of this thread alone, on Linux (setpriority(2), "C library/kernel differences"): sshd goes first.
try {
  setPriority(19);
} catch {
  // The unit's system call filter forbids it; there sshd has the larger CPUWeight.
}

parentPort?.on('message', (count: number) => void make(count));

async function make(count: number): Promise<void> {
  for (let left = count; left > 0; left -= 1) {
    parentPort?.postMessage(newCredential());
    await setImmediate(); // so that it can be stopped
  }
}
