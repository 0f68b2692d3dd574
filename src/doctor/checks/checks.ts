/** What checks uploads before they are announced: whether it answers, and how many files wait for it. */
import { type Checker, checkerOf } from '../../checks/checker.ts';
import { type Micros, SECOND } from '../../clock.ts';
import type { CheckBy } from '../../config.ts';
import { lookAt } from '../../db/look.ts';
import { errorMessage } from '../../errors.ts';
import { type Check, fail, type Finding, ok, oneLine, warn } from '../finding.ts';

/** How long the checker may take to say who it is, in seconds. */
const PATIENCE = 10;
/** After this long in check, a file is one that nobody can check. */
const LONG: Micros = 900 * SECOND;

export const checkChecks: Check = async ({ check, database }, clock) => {
  await using look = await lookAt(database);
  const { waiting, oldest } = await look.db
    .selectFrom('files')
    .select(({ fn }) => [fn.countAll<number>().as('waiting'), fn.min<Micros | null>('uploaded_at').as('oldest')])
    .where('state', '=', 'checking')
    .executeTakeFirstOrThrow();
  const { rejected } = await look.db
    .selectFrom('quarantine')
    .select(({ fn }) => fn.countAll<number>().as('rejected'))
    .executeTakeFirstOrThrow();
  if (!check) {
    if (waiting === 0) return [ok('uploads are announced without a check (BERTH_CHECK)')];
    return [
      fail(`${counted(waiting)} for a check, and BERTH_CHECK is not set`, 'systemctl restart berth announces them'),
    ];
  }
  const text = `${counted(waiting)} for a check, ${rejected} in the quarantine`;
  const late = oldest !== null && oldest < clock.now() - LONG;
  return [
    await answers(check.by, checkerOf(check.by), text),
    ...(late ? [warn(`${counted(waiting)} for a check, the oldest for over 15 minutes`, LATE)] : []),
  ];
};

const LATE = 'see why in the journal (journalctl -u berth), and which: berth quarantine list';

async function answers(by: CheckBy, { hello }: Checker, text: string): Promise<Finding> {
  try {
    return ok(oneLine(`${await hello(PATIENCE)}: ${text}`));
  } catch (error) {
    const remedy =
      by.kind === 'exec'
        ? 'systemctl enable --now berth-check.socket, and see journalctl -u "berth-check@*"'
        : 'see whether clamd runs: systemctl status clamav-daemon';
    return fail(oneLine(`${errorMessage(error)}: ${text}`), remedy);
  }
}

function counted(files: number): string {
  return files === 1 ? '1 file waits' : `${files} files wait`;
}
