/** A QR code as SVG, dark on light in every colour scheme, as cameras want it. */
import type { FC } from 'hono/jsx';
import { encode } from 'uqr';

/** Modules of light around it (ISO/IEC 18004). */
const BORDER = 4;

export const QrCode: FC<{ text: string; label: string }> = ({ text, label }) => {
  const { size, data } = encode(text, { border: BORDER });
  const rows = data.map((row, y) => {
    const dark = row.map((isDark) => (isDark ? 1 : 0)).join('');
    return [...dark.matchAll(/1+/g)].map(({ 0: { length }, index }) => `M${index} ${y}h${length}v1h-${length}z`);
  });
  return (
    <svg class="qr-code" role="img" aria-label={label} viewBox={`0 0 ${size} ${size}`} shape-rendering="crispEdges">
      <rect width={size} height={size} fill="#fff" />
      <path d={rows.flat().join('')} fill="#000" />
    </svg>
  );
};
