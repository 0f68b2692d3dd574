/** The checker that `BERTH_CHECK` names: clamd, or a program. */
import type { CheckBy, CheckPlace } from '../../foundation/base/config.ts';
import { type Checker, CheckFailed, exchange, type Verdict } from './exchange.ts';

export function checkerOf(by: CheckBy): Checker {
  return by.kind === 'clamd' ? clamdChecker(by.place) : execChecker(by.socket);
}

const FOUND = /^stream: (.+) FOUND$/;

/** clamd(8) as the checker. Its INSTREAM takes pieces, each after its length, then a zero length, and answers with one line. */
function clamdChecker(place: CheckPlace): Checker {
  return {
    async check({ content }, seconds, signal) {
      const said = await exchange({ place, pieces: inStream(content), endsStream: false, seconds, signal });
      return clamdVerdict(said);
    },
    async hello(seconds) {
      const { answer } = await exchange({ place, pieces: [Buffer.from('zVERSION\0')], endsStream: false, seconds });
      const version = textOf(answer);
      if (!/clam/i.test(version)) throw new CheckFailed(`this is not clamd: it said ${JSON.stringify(version)}`);
      return version;
    },
  };
}

async function* inStream(content: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, void> {
  yield Buffer.from('zINSTREAM\0');
  for await (const piece of content) yield Buffer.concat([lengthOf(piece.length), piece]);
  yield lengthOf(0);
}

function lengthOf(bytes: number): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes);
  return length;
}

function clamdVerdict({ answer, isAllSent }: { answer: string; isAllSent: boolean }): Verdict {
  const text = textOf(answer);
  const [, found] = FOUND.exec(text) ?? [];
  if (found !== undefined) return { isPassed: false, reason: found };
  if (text === 'stream: OK' && isAllSent) return { isPassed: true };
  if (text.startsWith('INSTREAM size limit exceeded')) {
    throw new CheckFailed("the file is larger than clamd's StreamMaxLength");
  }
  throw new CheckFailed(`clamd said ${JSON.stringify(text)}`);
}

function textOf(answer: string): string {
  return answer.split('\0', 1)[0] ?? '';
}

/**
 * A program as the checker. berth cannot become another user, so `scripts/lib/check` starts it, behind a socket and as a
 * separate user (berth-check.socket under systemd; otherwise the supervisor has the socket). berth sends one line, then the
 * file; it receives one line, then the program's output.
 */
function execChecker(socket: string): Checker {
  const place = { path: socket };
  return {
    async check({ directoryId, username, path, size, content }, seconds, signal) {
      const question = `check ${path.toString('hex')} ${directoryId} ${username} ${size} ${seconds}\n`;
      const pieces = questionAnd(question, content);
      // A little longer than the program may take, so that a report of its timeout still arrives.
      const said = await exchange({ place, pieces, endsStream: true, seconds: seconds + 5, signal });
      return programVerdict(said);
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

function programVerdict({ answer, isAllSent }: { answer: string; isAllSent: boolean }): Verdict {
  const [outcome = '', ...said] = answer.split('\n');
  const text = said.join(' ').trim();
  if (outcome === 'exit 0' && isAllSent) return { isPassed: true };
  if (outcome === 'exit 1') return { isPassed: false, reason: text === '' ? 'the checker gave no reason' : text };
  throw new CheckFailed(`the checker: ${outcome}${text === '' ? '' : `: ${text}`}`);
}
