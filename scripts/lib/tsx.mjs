// Loads tsx for every script and test (`node --import`).
import { fileURLToPath } from 'node:url';

const { node } = process.versions;
if (Number.parseInt(node, 10) < 24) {
  console.error(`berth needs Node 24 or later, and this is ${node}: scripts/start installs one for itself`);
  process.exit(1);
}

// tsx caches compiled code below the temporary folder, under a name that any user may have taken first. Root would run that code, so
// the cache is in the checkout's own folder.
const { TMPDIR } = process.env;
process.env.TMPDIR = fileURLToPath(new URL('../../node_modules/.cache', import.meta.url));
await import('tsx');
if (TMPDIR === undefined) delete process.env.TMPDIR;
else process.env.TMPDIR = TMPDIR;
