/** The entry of the `berth` command. What an older Node cannot read is imported only once this one is known to do. */
import { oldestNode } from './version.ts';

if (Number.parseInt(process.versions.node, 10) >= oldestNode) {
  const { runCommandLine } = await import('./command-line.ts');
  process.exitCode = await runCommandLine(process.argv.slice(2), process.env);
} else {
  process.stderr.write(`berth: needs Node ${oldestNode} or newer; this is ${process.version}\n`);
  process.exitCode = 1;
}
