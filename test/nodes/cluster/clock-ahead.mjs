// `node --import` this: the machine's clock is five minutes ahead, for that process. The kernel has no other one for it
// (time_namespaces(7) moves monotonic clocks alone), so the times of files are still those of all others.
const AHEAD = 300_000;

const System = Date;

globalThis.Date = class extends System {
  constructor(...args) {
    if (args.length === 0) super(System.now() + AHEAD);
    else super(...args);
  }

  static now() {
    return System.now() + AHEAD;
  }
};
