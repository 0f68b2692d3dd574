/** The command's entry: environment in, exit status out. No logic. */
import { invoke } from './cli/invocation.ts';
import { runProgram } from './cli/program.ts';
import { systemClock } from './clock.ts';

process.exitCode = await runProgram(process.argv.slice(2), invoke(process.env, systemClock()));
