/** The pages of links: the form of an upload link, and messages. They are plain HTML; the script only adds a progress bar. */
import { hash } from 'node:crypto';
import { html, raw } from 'hono/html';

const STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; max-width: 34rem; margin: 12vh auto; padding: 0 1rem; color: #1d2733; background: #fff }
h1 { font-size: 1.4rem; overflow-wrap: anywhere }
input, button { font: inherit; max-width: 100% }
button { padding: .4rem 1.2rem }
progress { width: 100% }
@media (prefers-color-scheme: dark) { body { color: #e3e9ef; background: #161b21 } }`;

/** Sends the form by script, since a browser shows no progress when it sends a form itself. */
const SCRIPT = `
const form = document.querySelector('form');
form?.addEventListener('submit', (event) => {
  event.preventDefault();
  const [bar, said, button] = ['progress', '[role=status]', 'button'].map((name) => form.querySelector(name));
  const request = new XMLHttpRequest();
  const ended = (text) => { said.textContent = text; bar.hidden = true; button.disabled = false; };
  request.upload.onprogress = ({ loaded, total }) => { bar.max = total; bar.value = loaded; };
  request.onerror = () => ended('The connection was lost. Try again.');
  request.onload = () => {
    let answer = {};
    try { answer = JSON.parse(request.responseText); } catch {}
    if (request.status < 300) form.replaceChildren('The file has been uploaded. You can close this page.');
    else ended(answer.error ?? 'The file could not be uploaded. Try again.');
  };
  request.open('POST', location.href);
  request.setRequestHeader('accept', 'application/json');
  request.send(new FormData(form));
  bar.value = 0;
  bar.hidden = false;
  button.disabled = true;
  said.textContent = '';
});`;

export interface LinkPages {
  /** The form of an upload link. */
  form(name: string, maxBytes: number): Promise<Response>;
  /** A page with one sentence. */
  message(text: string, status: number): Promise<Response>;
}

/** For every response to a link: its content is not run, framed or cached, and the page's URL is not sent elsewhere. */
export const LINK_HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; sandbox",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

export function linkPages(): LinkPages {
  // The hash has to be that of exactly the text between the tags.
  const sha = (text: string): string => `'sha256-${hash('sha256', text, 'base64')}'`;
  const policy = [
    "default-src 'none'",
    `script-src ${sha(SCRIPT)}`,
    `style-src ${sha(STYLE)}`,
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
  const headers = { ...LINK_HEADERS, 'content-security-policy': policy, 'content-type': 'text/html; charset=utf-8' };

  async function page(title: string, content: unknown, status = 200): Promise<Response> {
    const text = await html`<!doctype html>
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <title>${title}</title>
          ${raw(`<style>${STYLE}</style>`)}
        </head>
        <body>
          <main>
            <h1>${title}</h1>
            ${content}
          </main>
          ${raw(`<script>${SCRIPT}</script>`)}
        </body>
      </html>`;
    return new Response(text.toString(), { status, headers });
  }

  return {
    form: (name, maxBytes) =>
      page(
        `Upload ${name}`,
        html`<form method="post" enctype="multipart/form-data">
          <p>
            <label
              >File, at most ${maxBytes.toLocaleString('en')} bytes: <input type="file" name="file" required
            /></label>
          </p>
          <p><button>Upload</button></p>
          <progress aria-label="Progress" value="0" max="1" hidden></progress>
          <p role="status"></p>
        </form>`,
      ),
    message: (text, status) => page(status < 300 ? 'Thank you' : 'This did not work', html`<p>${text}</p>`, status),
  };
}
