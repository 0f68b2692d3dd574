/** Sessions whose process died without a word, while the log of what they did before is still to be followed. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { systemClock } from '../../src/clock.ts';
import { readEvent } from '../../src/uploads/log/log-line.ts';
import { UnheardSessions } from '../../src/uploads/log/unheard-sessions.ts';
import { recordingPlace } from '../support/recording-place.ts';

const FILES = 200;

async function deadProcess(): Promise<number> {
  const child = spawn('true');
  await once(child, 'exit');
  return child.pid ?? 0;
}

test('a process that has died is gone when all it said has been followed, however far behind the log is', async () => {
  await using at = await recordingPlace();
  const { jail, parting } = at;
  const pid = await deadProcess();
  const at0 = systemClock().now();
  let heard = 0;
  // What sshd said is followed slowly.
  const caughtUp = async (): Promise<void> => {
    for (; heard < texts.length; heard += 1) {
      const session = parting.sessions.get(jail.id, pid);
      if (session) parting.interpreter.interpret(session, readEvent(texts[heard] ?? ''), at0 + heard);
      if (heard % 50 === 0) await wait(1);
    }
  };
  const unheard = new UnheardSessions({
    ...parting,
    clock: systemClock(),
    filesRoot: () => at.files,
    jails: { byUid: async () => undefined },
    firstUid: 0,
    addressOf: () => undefined,
    live: () => undefined,
    lost: () => assert.fail('lines were lost'),
    isRestoring: () => false,
    isGapless: () => true,
    caughtUp,
  });

  parting.interpreter.begin(pid, '127.0.0.1', jail, 1);
  const names = Array.from({ length: FILES }, (_, number) => `file-${String(number).padStart(3, '0')}`);
  const texts = names.flatMap((name) => [
    `open "${name}" flags WRITE,CREATE,TRUNCATE mode 0644`,
    `close "${name}" bytes read 0 written 4`,
  ]);
  for (const name of names) at.write(name, 'data');
  for (let sweep = 0; sweep < 2; sweep += 1) await unheard.sweep();
  assert.equal(parting.sessions.get(jail.id, pid), undefined);
  await at.settles(
    names.map((name) => `${name} 4`),
    names.map((name) => `${name} 4 uploaded`),
  );
});
