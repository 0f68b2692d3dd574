/** Debian's chromium: `scripts/test --all` installs it. */
import { existsSync } from 'node:fs';

/** The one that has no window needs a third of the other's processor time. */
const PROGRAMS = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];

export function findChromium(): string | undefined {
  return PROGRAMS.find((program) => existsSync(program));
}

/** @throws where it is missing. */
export function chromium(): string {
  const program = findChromium();
  if (program === undefined) throw new Error(`none of these is there: ${PROGRAMS.join(', ')}`);
  return program;
}
