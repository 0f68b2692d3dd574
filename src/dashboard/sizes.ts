/** Sizes as people enter them. */

/** Decimal units as disks are sold, binary ones as they are counted here. A number alone is of MiB, as before there were units. */
export const UNITS: Readonly<Record<string, number>> = {
  B: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KIB: 2 ** 10,
  MIB: 2 ** 20,
  GIB: 2 ** 30,
  TIB: 2 ** 40,
};

/** The size in bytes, null for an empty field; other input stays as it is, for the rules to refuse. */
export function bytesIn(text: string): number | string | null {
  if (text === '') return null;
  const [, number = '', unit = 'MiB'] = /^(\d{1,15}(?:\.\d+)?)\s*([KMGT]?i?B)?$/i.exec(text) ?? [];
  const size = UNITS[unit.toUpperCase()];
  return number === '' || size === undefined ? text : Math.round(Number(number) * size);
}
