/** Checks that the checker of uploads answers, and how many files wait for it, or to be announced. */
import { checkerOf } from '../../../arrivals/checks/checker.ts';
import { type Checker, CheckerAway } from '../../../arrivals/checks/exchange.ts';
import { type Micros, SECOND } from '../../../foundation/base/clock.ts';
import type { CheckBy } from '../../../foundation/base/config.ts';
import { inspect } from '../../../foundation/db/inspect.ts';
import { errorMessage } from '../../../foundation/base/errors.ts';
import { type Check, fail, type Finding, ok, oneLine, warn } from '../finding.ts';

/** How long the checker may take to identify itself. */
const TIMEOUT_SECONDS = 10;
/** After this long, the checker apparently cannot check a file. */
const LATE_AFTER: Micros = 900 * SECOND;

export const checkUploadChecker: Check = async ({ check, settleSeconds, database }, clock) => {
  const due = clock.now() - settleSeconds * SECOND;
  await using inspection = await inspect(database);
  const { waiting, oldest } = await inspection.db
    .selectFrom('files')
    .select(({ fn }) => [fn.countAll<number>().as('waiting'), fn.min<Micros | null>('uploaded_at').as('oldest')])
    .where('state', '=', 'checking')
    .where('named_at', '<=', due)
    .executeTakeFirstOrThrow();
  const { rejected } = await inspection.db
    .selectFrom('quarantine')
    .select(({ fn }) => fn.countAll<number>().as('rejected'))
    .executeTakeFirstOrThrow();
  const late = oldest !== null && oldest < due - LATE_AFTER;
  if (!check) {
    if (!late) return [ok('uploads are announced without a check (BERTH_CHECK)')];
    return [warn(`${counted(waiting)} to be announced, the oldest for over 15 minutes`, LATE)];
  }
  const text = `${counted(waiting)} for a check, ${rejected} in the quarantine`;
  return [
    await answers(check.by, checkerOf(check.by), text),
    ...(late ? [warn(`${counted(waiting)} for a check, the oldest for over 15 minutes`, LATE)] : []),
  ];
};

const LATE = 'see the reason in journalctl -u berth, and the files in berth quarantine list';

async function answers(by: CheckBy, { hello }: Checker, text: string): Promise<Finding> {
  try {
    return ok(oneLine(`${await hello(TIMEOUT_SECONDS)}: ${text}`));
  } catch (error) {
    return fail(oneLine(`${errorMessage(error)}: ${text}`), remedyOf(by, error));
  }
}

function remedyOf(by: CheckBy, error: unknown): string {
  if (by.kind === 'clamd') return 'see whether clamd runs: systemctl status clamav-daemon';
  if (error instanceof CheckerAway) {
    return 'systemctl enable --now berth-check.socket, and see journalctl -u "berth-check@*"';
  }
  return 'put the program there, for every user to read and run (chmod 755), or correct BERTH_CHECK';
}

function counted(files: number): string {
  return files === 1 ? '1 file waits' : `${files} files wait`;
}
