/** Code that verifies a webhook, in four languages: the files of `snippets/`, which the tests run. */
import { readFileSync } from 'node:fs';
import type { FC } from 'hono/jsx';
import { Folds, Section } from './section.tsx';
import { Code } from './values.tsx';

const FILES = { 'verify.js': 'Node.js', 'verify.py': 'Python', 'verify.php': 'PHP', 'verify.go': 'Go' };

/** Read from `src/`, which an installation has beside the compiled program. */
const FOLDER = new URL('../../../../src/interfaces/dashboard/snippets/', import.meta.url);

export interface Snippet {
  readonly language: string;
  readonly text: string;
}

export function readSnippets(): Snippet[] {
  return Object.entries(FILES).map(([file, language]) => ({
    language,
    text: readFileSync(new URL(file, FOLDER), 'utf8'),
  }));
}

export const Verification: FC<{ snippets: readonly Snippet[] }> = ({ snippets }) => (
  <Section title="Verify webhooks">
    <p>
      Compute the signature of the raw body before you parse it, and compare it with the header{' '}
      <code class="whole">x-service-signature</code>. Respond with 2xx within 5 seconds, and do the work afterwards.
    </p>
    <Folds
      name="language"
      of={Object.fromEntries(
        snippets.map(({ language, text }) => [language, <Code text={text} label={`the ${language} code`} />]),
      )}
    />
  </Section>
);
