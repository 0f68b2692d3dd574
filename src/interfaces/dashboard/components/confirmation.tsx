/**
 * The question before an action that may lose something. A button that asks first sends its question along, and is answered by a page
 * that repeats its form without the question. The script asks in a dialog instead.
 */
import type { MiddlewareHandler } from 'hono';
import { clipped } from './text.tsx';
import { type DashboardEnv, cameFrom } from '../environment.ts';
import { ASK, Form } from './form.tsx';
import { Layout } from './layout.tsx';
import { Section } from './section.tsx';

/** About how many characters a question has at most. */
const LONGEST = 2000;

/** Answers a form with its question, if it has one. */
export const askFirst: MiddlewareHandler<DashboardEnv> = async (c, next) => {
  const { [ASK]: asked, ...fields } = c.req.method === 'POST' ? await c.req.parseBody({ all: true }) : {};
  // Before the code is entered, a page shows nothing of the account.
  if (typeof asked !== 'string' || c.get('user').awaitsCode) return next();
  const [label = '', about = '', text = ''] = clipped(asked, LONGEST).split(/\r?\n/);
  const repeated = Object.entries(fields).filter(([name]) => name !== '_csrf');
  return c.render(
    <Layout title={label}>
      <Section title={`${label}: ${about}`} about={text}>
        <Form class="actions">
          {repeated.flatMap(([name, values]) =>
            [values]
              .flat()
              .map((value) => typeof value === 'string' && <input type="hidden" name={name} value={value} />),
          )}
          <button class="danger solid">{label}</button>
          <a href={cameFrom(c) ?? '/dashboard'}>Cancel</a>
        </Form>
      </Section>
    </Layout>,
  );
};
