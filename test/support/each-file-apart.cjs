// `node --require` this, and the test runner starts each file by file-apart. The runner itself has no limit for a file: one that
// left a listener behind would keep it waiting for ever. CommonJS, since the runner loads no `--import`.
// What V8 makes of the sources is kept for the next process: compiling them takes a third of what the tests cost.
const { join } = require('node:path');

if (process.env.NODE_TEST_CONTEXT === undefined) {
  process.execPath = join(__dirname, 'file-apart');
  process.env.NODE_COMPILE_CACHE ??= join(__dirname, '../../node_modules/.cache/compiled');
}
