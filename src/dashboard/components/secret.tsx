/** A secret right after it was made: shown once, with what it is and that it will not be seen again. */
import type { FC, PropsWithChildren } from 'hono/jsx';
import type { ShownOnce } from '../shown-once.ts';
import { Copyable } from './values.tsx';

/** Nothing when there is none to show. `children`: what to do with it. */
export const Secret: FC<PropsWithChildren<{ secret: ShownOnce | undefined; label: string }>> = ({
  secret,
  label,
  children,
}) => {
  if (!secret) return <></>;
  return (
    <div class="secret" role="status">
      <strong>{label}</strong>
      <p>
        <Copyable text={secret.value} label={label} secret={secret.kind} />
      </p>
      <p>It is shown only this once. Copy it now and keep it safe.</p>
      {children}
    </div>
  );
};
