/** Names of which only the beginning is known, and what was said about each. */

const QUOTE = '"';

/** What is said last of a name counts. Looking one up costs the same for few and for many. */
export class CutNames<T> {
  /** The beginnings, bytes as Latin-1. */
  readonly #said = new Map<string, { readonly order: number; readonly what: T }>();
  readonly #lengths = new Set<number>();
  #sorted: string[] | undefined;
  #count = 0;

  /** `begins`: the beginning of a name, or the whole of it with wording from a `"` on. */
  add(begins: Buffer, what: T): void {
    const key = begins.toString('latin1');
    this.#count += 1;
    this.#said.set(key, { order: this.#count, what });
    this.#lengths.add(key.length);
    this.#sorted = undefined;
  }

  /** What was said of the name that this may be. */
  of(name: Buffer): T | undefined {
    const text = name.toString('latin1');
    let found: { readonly order: number; readonly what: T } | undefined;
    const take = (begins: string): void => {
      const said = this.#said.get(begins);
      if (said && (!found || said.order > found.order)) found = said;
    };
    for (const length of this.#lengths) if (length <= text.length) take(text.slice(0, length));
    const quoted = text + QUOTE;
    // As Latin-1 the order is that of the bytes, so those that go on behind the name lie side by side.
    const sorted = (this.#sorted ??= [...this.#said.keys()].sort(byCharacters));
    for (let i = firstFrom(sorted, quoted); sorted[i]?.startsWith(quoted) === true; i += 1) take(sorted[i] ?? '');
    return found?.what;
  }
}

function byCharacters(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

/** The index of the first that does not come before `text`. */
function firstFrom(sorted: readonly string[], text: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? '') < text) low = middle + 1;
    else high = middle;
  }
  return low;
}
