/** The entry of the `berth` command. An older Node cannot parse the other files, so they are imported only once the version is checked. */
import { oldestNode } from './foundation/base/version.ts';

if (Number.parseInt(process.versions.node, 10) >= oldestNode) {
  const { invoke } = await import('./cli/invocation.ts');
  const { runProgram } = await import('./cli/program.ts');
  const { systemClock } = await import('./foundation/base/clock.ts');
  const { withRealFolders } = await import('./foundation/base/files.ts');
  process.exitCode = await runProgram(process.argv.slice(2), invoke(withRealFolders(process.env), systemClock()));
} else {
  process.stderr.write(`berth: needs Node ${oldestNode} or newer; this is ${process.version}\n`);
  process.exitCode = 1;
}
