/**
 * A program as the checker. berth may not become another user, so it does not start it: `scripts/lib/check` does, behind a
 * socket, as a user of its own (berth-check.socket; elsewhere the supervisor holds it). What is sent is one line, then the
 * file; what comes back is one line, then what the program printed.
 */
import { type Checker, CheckFailed, exchange, type Verdict } from './exchange.ts';

export function execChecker(socket: string): Checker {
  const place = { path: socket };
  return {
    async check({ directoryId, username, path, size, content }, seconds, signal) {
      const question = `check ${path.toString('hex')} ${directoryId} ${username} ${size} ${seconds}\n`;
      const pieces = questionAnd(question, content);
      // A little longer than the program may take, so that what is said of it comes through.
      const said = await exchange({ place, pieces, endsStream: true, seconds: seconds + 5, signal });
      return verdictOf(said);
    },
    async hello(seconds) {
      const { answer } = await exchange({ place, pieces: [Buffer.from('hello\n')], endsStream: true, seconds });
      const [, program] = /^runs (.+)\n/.exec(answer) ?? [];
      if (program === undefined) throw new CheckFailed(answer.trim());
      return program;
    },
  };
}

async function* questionAnd(question: string, content: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, void> {
  yield Buffer.from(question);
  yield* content;
}

function verdictOf({ answer, isAllSent }: { answer: string; isAllSent: boolean }): Verdict {
  const [outcome = '', ...said] = answer.split('\n');
  const text = said.join(' ').trim();
  if (outcome === 'exit 0' && isAllSent) return { isPassed: true };
  if (outcome === 'exit 1') return { isPassed: false, reason: text === '' ? 'the checker gave no reason' : text };
  throw new CheckFailed(`the checker: ${outcome}${text === '' ? '' : `: ${text}`}`);
}
