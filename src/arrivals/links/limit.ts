/** Sizes of files as people write them: 100 MB. */
const UNITS = ['bytes', 'KB', 'MB', 'GB', 'TB'];

/** A limit in words, never more than it is. Sizes that are whole in binary units are shown in these: 104857600 is 100 MB. */
export function limitInWords(bytes: number): string {
  for (const base of [1024, 1000]) {
    const step = bytes < base ? 0 : Math.min(4, Math.floor(Math.log(bytes) / Math.log(base)));
    const count = bytes / base ** step;
    if (base === 1000 || (step > 1 && Number.isInteger(count))) {
      const shown = Math.floor(count * 10) / 10;
      return `${shown} ${step === 0 && bytes === 1 ? 'byte' : UNITS[step]}`;
    }
  }
  return `${bytes} bytes`;
}
