/** Checks that berth knows every setting. */
import { unknownSettings } from '../../base/config.ts';
import { fail, type Finding, ok } from '../finding.ts';

export function settingsFindings(environment: Readonly<Record<string, string | undefined>>): Finding[] {
  const unknown = unknownSettings(environment);
  if (unknown.length === 0) return [ok('berth knows every BERTH_* variable')];
  return unknown.map(({ name, nearest }) =>
    fail(
      `${name} is not a setting, so it has no effect`,
      `rename it to ${nearest}, or remove it from /etc/berth/berth.env`,
    ),
  );
}
