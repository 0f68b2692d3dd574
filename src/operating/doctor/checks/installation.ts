/** Checks how berth is installed: its units, its settings, and that no trial is left. */
import { existsSync } from 'node:fs';
import { type Config, unknownSettings } from '../../../foundation/base/config.ts';
import { ignoredLines, SETTINGS } from '../../../foundation/base/settings-file.ts';
import { type Check, fail, type Finding, ok, orOk, warn } from '../finding.ts';
import { command } from '../processes.ts';
import { join } from 'node:path';

/** Ports below this one need a capability (ip(7), ip_unprivileged_port_start). */
const PRIVILEGED = 1024;

/** Checks that the user of berth.service exists, and that the unit may do what the settings require. */
export const checkUnits: Check = async (config) => {
  const { LoadState: load, User: user = '', AmbientCapabilities: powers = '' } = await propertiesOf('berth.service');
  if (load !== 'loaded') return [ok('no unit berth.service here')];
  return orOk([await missingUser(user), unbindable(config, powers)], `berth.service runs as ${user}`);
};

async function missingUser(user: string): Promise<Finding | undefined> {
  if (user === '' || (await command('getent', ['passwd', user])).status === 0) return undefined;
  return fail(
    `berth.service runs as the user ${user}, and there is none`,
    'systemd-sysusers, then: systemctl restart berth',
  );
}

function unbindable({ api, dashboard }: Config, powers: string): Finding | undefined {
  const port = [api.port, dashboard.own?.port ?? PRIVILEGED].find((each) => each > 0 && each < PRIVILEGED);
  if (port === undefined || powers.includes('cap_net_bind_service')) return undefined;
  const lines = 'CapabilityBoundingSet=CAP_NET_BIND_SERVICE and AmbientCapabilities=CAP_NET_BIND_SERVICE';
  return fail(
    `berth.service may not listen on port ${port}: that needs CAP_NET_BIND_SERVICE`,
    `systemctl edit berth: below [Service] ${lines}; or put a proxy in front`,
  );
}

async function propertiesOf(unit: string): Promise<Record<string, string | undefined>> {
  if (!existsSync('/run/systemd/system')) return {};
  const { stdout } = await command('systemctl', ['show', '--property=LoadState,User,AmbientCapabilities', unit]);
  return Object.fromEntries(stdout.split('\n').map((line) => line.split('=')));
}

/** Checks that every setting has an effect, and that a restore has left no other settings. */
export function settingsFindings(environment: Readonly<Record<string, string | undefined>>): Finding[] {
  const unknown = unknownSettings(environment).map((name) =>
    fail(
      `${name} is not a setting and has no effect`,
      `correct or remove it in ${SETTINGS}, then: systemctl restart berth berth-sshd`,
    ),
  );
  const ignored = ignoredLines().map((line) => fail(line, 'correct it, then: systemctl restart berth berth-sshd'));
  const restored = `${SETTINGS}.restored`;
  return orOk(
    [
      ...unknown,
      ...ignored,
      existsSync(restored) &&
        warn(
          `${restored} has the settings of a restored backup, which are not in use`,
          `copy what you need into ${SETTINGS}, restart berth and berth-sshd, then remove that file`,
        ),
    ],
    'berth knows every BERTH_* variable',
  );
}

/** Checks for the admin key that scripts/start leaves in a file, which should not exist in production. */
export const checkTrial: Check = ({ stateDir }) => {
  const key = join(stateDir, 'demo-key');
  if (!existsSync(key)) return [ok('nothing is left of a trial')];
  const remedy =
    'before production: run scripts/install, which removes both, or berth account delete, then remove that file';
  return [warn(`the account "Demo" of scripts/start has an admin key in ${key}`, remedy)];
};
