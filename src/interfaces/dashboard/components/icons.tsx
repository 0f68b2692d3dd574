/** The icons of the navigation, drawn as strokes on a grid of 16 in the colour of the text beside them; and the mark. */
import type { FC } from 'hono/jsx';

const PATHS = {
  overview: 'M2.5 13.5v-5M6.2 13.5v-9M9.8 13.5v-6M13.5 13.5v-11',
  directories: 'M1.5 4.5v8h13v-7h-6.5l-1.5-2h-5z',
  deliveries: 'M1.5 8 14.5 2 10.5 14 7.5 9zM7.5 9l3-3',
  activity: 'M1.5 8h3l2-5 3 10 2-5h3',
  account: 'M2.5 14V2h7v12M9.5 6h4v8M1 14h14M5 5h2M5 8h2M5 11h2',
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
