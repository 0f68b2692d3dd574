/**
 * A file is sent under a temporary name and renamed, with its times kept, and later sent again with the same size: WinSCP's default. Each
 * time is an upload, however long the final name is: sshd's log cuts off the second name of a rename first.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { webhookOf } from '../support/berth.ts';
import { CREATE_ANEW, FXP, type RawSftp, rawSftp } from '../support/raw-sftp.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

const TIMES = [8, 1_700_000_000, 1_700_000_000] as const;
const TIMES_SENT = 3;
/** Longer than a file has to be quiet. */
const PAUSE_MS = 4000;
const TEMPORARY = '.filepart';
const LONGEST = 255;

const NAMES = [
  'a.xlsx',
  `${'報'.repeat(26)}.xlsx`,
  `${'n'.repeat(149)}.xlsx`,
  `${'n'.repeat(244)}.xlsx`,
  `${'n'.repeat(250)}.xlsx`,
  `${'長'.repeat(83)}.xlsx`,
];

/** Gives the temporary file its final name. */
const WAYS: Record<string, (session: RawSftp, from: string, to: string) => Promise<unknown>> = {
  async 'a plain rename, after the old file was moved away'(session, from, to) {
    await session.replace(to, 'old');
    assert.equal((await session.rename(from, to)).status, 0);
  },
  async 'posix-rename'(session, from, to) {
    assert.equal((await session.replace(from, to)).status, 0);
  },
  async 'removal and rename'(session, from, to) {
    await session.request(FXP.REMOVE, to);
    assert.equal((await session.rename(from, to)).status, 0);
  },
};

async function send(session: RawSftp, name: string, data: string, isDatedBefore: boolean): Promise<string> {
  const temporary =
    Buffer.from(name)
      .subarray(0, LONGEST - TEMPORARY.length - 3)
      .toString()
      .replace(/\uFFFD$/, '') + TEMPORARY;
  const handle = await session.open(temporary, CREATE_ANEW);
  assert.ok(handle);
  await session.request(FXP.WRITE, handle, 0n, data);
  if (isDatedBefore) await session.request(FXP.FSETSTAT, handle, ...TIMES);
  await session.request(FXP.CLOSE, handle);
  return temporary;
}

void describe('sent three times with the same size and times: three uploads', { concurrency: true }, () => {
  for (const [way, rename] of Object.entries(WAYS)) {
    for (const isDatedBefore of [true, false]) {
      test(`${way}, times set ${isDatedBefore ? 'before' : 'after'}`, async () => {
        await using berth = await shared();
        const sent = NAMES.map(async (name) => {
          const directory = await berth.directory();
          await using connection = await berth.connect(directory);
          const session = await rawSftp(connection);
          const announced = (): number =>
            berth.receiver.requests.map(webhookOf).filter(({ filename }) => filename === name).length;
          for (let i = 1; i <= TIMES_SENT; i++) {
            const temporary = await send(session, name, `bytes ${i}`, isDatedBefore);
            await rename(session, temporary, name);
            if (!isDatedBefore) await session.request(FXP.SETSTAT, name, ...TIMES);
            await wait(PAUSE_MS);
          }
          await wait(PAUSE_MS);
          return `${Buffer.byteLength(name)} bytes: ${announced()}`;
        });
        assert.deepEqual(
          await Promise.all(sent),
          NAMES.map((name) => `${Buffer.byteLength(name)} bytes: ${TIMES_SENT}`),
        );
      });
    }
  }
});
