// `node --require` this, and the test runner starts each file by file-apart. The runner itself has no limit for a file: one that
// left a listener behind would keep it waiting for ever. CommonJS, since the runner loads no `--import`.
// What V8 makes of the sources is kept for the next process: compiling them takes a third of what the tests cost.
//
// In a test file, node:test follows each promise from its making to its end, to know which test an error came from that nobody has
// caught. That takes a tenth of the processor's time. Without it, such an error still fails the file. Tests of uploads by a real sshd
// keep it: a berth that it does not slow down sends a webhook too many for some files whose names the log cuts off (docs/limits.md).
const FOLLOWED = /\/test\/sshd\/(?:uploads-|storm|hostile-|quick-consumer)/;
const hooks = require('node:async_hooks');
const { join } = require('node:path');

if (process.env.NODE_TEST_CONTEXT !== undefined) {
  const none = { enable: () => none, disable: () => none };
  if (!FOLLOWED.test(process.argv[1] ?? '')) hooks.createHook = () => none;
} else {
  process.execPath = join(__dirname, 'file-apart');
  process.env.NODE_COMPILE_CACHE ??= join(__dirname, '../../node_modules/.cache/compiled');
}
