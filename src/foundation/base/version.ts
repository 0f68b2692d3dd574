/** berth's version, from package.json. */
import packageJson from '../../../package.json' with { type: 'json' };

export const version: string = packageJson.version;

/** The major version of the oldest Node that berth runs on. */
export const oldestNode = Number(/\d+/.exec(packageJson.engines.node)?.[0]);
