/** Virtual time: planned events happen in the order of their times. */
export class ModelTime {
  /** µs. */
  now: number;
  readonly #planned: { readonly at: number; readonly order: number; readonly run: () => void }[] = [];
  #count = 0;

  constructor(now: number) {
    this.now = now;
  }

  in(us: number, run: () => void): void {
    this.#count += 1;
    const item = { at: this.now + us, order: this.#count, run };
    let index = this.#planned.length;
    while (index > 0 && (this.#planned[index - 1]?.at ?? 0) > item.at) index -= 1;
    this.#planned.splice(index, 0, item);
  }

  get next(): number | undefined {
    return this.#planned[0]?.at;
  }

  /** Lets everything happen that is planned until then. */
  advance(to: number): void {
    for (let item = this.#planned[0]; item && item.at <= to; item = this.#planned[0]) {
      this.#planned.shift();
      this.now = Math.max(this.now, item.at);
      item.run();
    }
    this.now = Math.max(this.now, to);
  }
}
