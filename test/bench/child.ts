/** Programs of the bench that run as processes of their own, as berth does: what they are held against. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface Child extends AsyncDisposable {
  readonly pid: number;
  /** Sends a line of JSON to its standard input and returns the JSON that it answers with. */
  ask<T>(question: unknown): Promise<T>;
}

/** Starts a file of this folder, which reads questions and writes answers, a line each. */
export function startChild(file: string, ...args: readonly string[]): Child {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const child: ChildProcess = spawn(process.execPath, [path, ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
  const { stdin, stdout, pid } = child;
  if (!stdin || !stdout || pid === undefined) throw new Error(`cannot start ${file}`);
  const lines = createInterface(stdout)[Symbol.asyncIterator]();
  const ended = once(child, 'exit');
  return {
    pid,
    async ask<T>(question: unknown) {
      stdin.write(`${JSON.stringify(question)}\n`);
      const { value, done } = await lines.next();
      if (done === true) throw new Error(`${file} ended`);
      return JSON.parse(value) as T;
    },
    async [Symbol.asyncDispose]() {
      stdin.end();
      await ended;
    },
  };
}

/** Answers each line of standard input; ends with it. */
export async function answerQuestions(answer: (question: never) => Promise<unknown>): Promise<void> {
  for await (const line of createInterface(process.stdin)) {
    console.log(JSON.stringify(await answer(JSON.parse(line) as never)));
  }
}

/** Seconds of processor time that a process has used, its own children not counted (proc_pid_stat(5), 14 and 15). */
export function processorTime(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** The memory that a process holds, in MiB. */
export function residentMemory(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}
