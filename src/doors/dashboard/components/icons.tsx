/** The icons of the navigation, drawn as strokes on a grid of 16 in the colour of the text beside them; and the mark. */
import type { FC } from 'hono/jsx';

const PATHS = {
  overview: 'M2.5 13.5v-5M6.2 13.5v-9M9.8 13.5v-6M13.5 13.5v-11',
  directories: 'M1.5 4.5v8h13v-7h-6.5l-1.5-2h-5z',
  deliveries: 'M1.5 8 14.5 2 10.5 14 7.5 9zM7.5 9l3-3',
  sessions: 'M4.5 6.5a3.5 3.5 0 0 1 7 0v1.5M3 8h10v6H3z',
  keys: 'M9.2 6.8a3.2 3.2 0 1 0-1.5 1.5L9 9.5h1.5V11H12v1.5h2V10.5z',
  team: 'M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM1.5 13.5c0-5.5 9-5.5 9 0M10.5 2.8a2.5 2.5 0 0 1 0 4.4M12.2 9.8c1.600.6 2.300 2 2.300 3.700',
  account: 'M2.5 14V2h7v12M9.5 6h4v8M1 14h14M5 5h2M5 8h2M5 11h2',
  profile: 'M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2.5 14.5c0-6 11-6 11 0',
} as const;

export type IconName = keyof typeof PATHS;

export const Icon: FC<{ name: IconName }> = ({ name }) => (
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
    <path d={PATHS[name]} />
  </svg>
);

/** A ship's berth: a bollard between two quays. The same drawing is the favicon (`static/mark.svg`). */
export const Mark: FC = () => (
  <svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
    <rect width="24" height="24" rx="6" />
    <path d="M7 5v8.5a5 5 0 0 0 10 0V5M12 5v9" />
  </svg>
);
