/** ClamAV's daemon as the checker, by clamd(8)'s INSTREAM: pieces with their lengths, a zero length at the end, one line back. */
import type { CheckPlace } from '../base/config.ts';
import { type Checker, CheckFailed, exchange, type Verdict } from './exchange.ts';

const FOUND = /^stream: (.+) FOUND$/;

export function clamdChecker(place: CheckPlace): Checker {
  return {
    async check({ content }, seconds, signal) {
      const said = await exchange({ place, pieces: inStream(content), endsStream: false, seconds, signal });
      return verdictOf(said);
    },
    async hello(seconds) {
      const { answer } = await exchange({ place, pieces: [Buffer.from('zVERSION\0')], endsStream: false, seconds });
      const version = textOf(answer);
      if (!/clam/i.test(version)) throw new CheckFailed(`this is no clamd: it said ${JSON.stringify(version)}`);
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

function verdictOf({ answer, isAllSent }: { answer: string; isAllSent: boolean }): Verdict {
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
