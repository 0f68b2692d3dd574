/** Reproducible random numbers from a seed (mulberry32). */
export type Random = (below: number) => number;

export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4_294_967_296) * below);
  };
}

/** Sizes of uploads, so far apart that a sum of them, as the log counts appends, is hardly ever another one. */
export function distinctSizes(): () => number {
  const random = randomOf(1);
  let size = 0;
  return () => (size += 1 + random(100_000));
}
