/**
 * The pages that outsiders see: an upload link's form, the receipt, a download link's file, a password, and messages. They are plain HTML; the
 * script adds the progress, several files at once, the check of their size before they are sent, and a button that copies the password.
 */
import { hash } from 'node:crypto';
import { html, raw } from 'hono/html';
import { DAY, formatMicros, type Micros } from '../../foundation/base/clock.ts';
import { plainText } from '../../foundation/base/text.ts';
import { limitInWords } from '../../arrivals/links/links.ts';

const STYLE = `
:root { color-scheme: light dark; --text: light-dark(#171c24, #e7eaf0); --quiet: light-dark(#596273, #a0aaba);
  --page: light-dark(#f4f5f8, #0e1116); --card: light-dark(#fff, #171b21); --line: light-dark(#e1e4ea, #2a303a);
  --edge: light-dark(#868f9c, #727d8d); --accent: light-dark(#1257c4, #8ab8ff); --fill: light-dark(#1257c4, #2f6fdb);
  --good: light-dark(#0f6b3c, #74d69c); --bad: light-dark(#b01c1c, #ff9d9d) }
* { box-sizing: border-box; margin: 0 }
[hidden] { display: none !important }
body { min-height: 100vh; display: flex; flex-direction: column; align-items: center; padding: min(10vh, 6rem) 1rem 1.5rem;
  background: var(--page); color: var(--text); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
main { width: 100%; max-width: 30rem; padding: 2rem; border: 1px solid var(--line); border-radius: 14px; background: var(--card);
  box-shadow: 0 1px 3px rgb(0 0 0 / 6%), 0 8px 24px rgb(0 0 0 / 4%) }
h1 { font-size: 1.375rem; line-height: 1.3; letter-spacing: -.015em; text-wrap: balance }
h1 + p { margin-top: .375rem }
p, ul { margin-top: .75rem }
.quiet, footer { color: var(--quiet) }
small, .hint, footer { font-size: .875rem }
footer { margin-top: 1.25rem; text-align: center }
form { margin-top: 1.5rem }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
label { display: block }
.zone { display: block; position: relative; padding: 1.75rem 1.25rem; border: 1.5px dashed var(--edge); border-radius: 10px; text-align: center }
.zone strong { display: block }
.zone input { max-width: 100%; margin-top: 1rem; font: inherit; font-size: .875rem; color: inherit }
.js .zone { cursor: pointer }
.js .zone input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0; cursor: pointer }
.zone:focus-within, .zone.over, .js .zone:hover { border-color: var(--accent) }
.zone.over { background: color-mix(in srgb, var(--accent) 8%, var(--card)) }
.zone:focus-within { outline: 2px solid var(--accent); outline-offset: 2px }
.arrow { display: block; width: 1.75rem; margin: 0 auto .5rem; fill: none; stroke: var(--accent); stroke-width: 1.6; stroke-linecap: round; stroke-linejoin: round }
button, .button { display: block; width: 100%; margin-top: 1rem; padding: .625rem 1rem; border: 1px solid transparent; border-radius: 8px; background: var(--fill); color: #fff;
  font: inherit; font-weight: 600; text-align: center; text-decoration: none; cursor: pointer }
button:disabled { opacity: .55; cursor: default }
button.plain { border-color: var(--line); background: none; color: var(--text); font-weight: 500 }
ul { padding: 0; list-style: none; border-top: 1px solid var(--line) }
li { display: flex; justify-content: space-between; gap: 1rem; padding: .625rem 0; border-bottom: 1px solid var(--line) }
li span:last-child { flex: none; color: var(--quiet); font-variant-numeric: tabular-nums }
code { display: block; padding: .75rem 1rem; border: 1px solid var(--line); border-radius: 8px; font-size: 1.0625rem; user-select: all }
progress { display: block; width: 100%; height: .5rem; margin-top: 1rem; accent-color: var(--fill) }
.error { color: var(--bad); font-weight: 500 }
.sign { display: grid; place-items: center; width: 2.5rem; height: 2.5rem; margin-bottom: 1rem; border-radius: 50%;
  background: color-mix(in srgb, var(--good) 14%, var(--card)); color: var(--good); font-size: 1.25rem; font-weight: 700 }
@media (max-width: 30rem) { body { padding-top: 1rem } main { padding: 1.25rem } }`;

const SCRIPT = `
const form = document.querySelector('form:has(.zone)');
for (const time of document.querySelectorAll('time[datetime]'))
  time.textContent = new Date(time.dateTime).toLocaleString('en-GB', { day: 'numeric', month: 'long', hour: '2-digit', minute: '2-digit' });
// A second click would replace the password by the page that says that it was shown.
const once = document.querySelector('form:not([enctype])[method=post]');
once?.addEventListener('submit', (event) => {
  if ('sent' in once.dataset) event.preventDefault();
  once.dataset.sent = '';
});
const copy = document.querySelector('.copy');
if (copy) {
  copy.hidden = false;
  copy.addEventListener('click', async () => {
    await navigator.clipboard.writeText(document.querySelector('code').textContent);
    copy.textContent = 'Copied';
  });
}
if (form) {
  document.body.classList.add('js');
  const find = (selector) => form.querySelector(selector);
  const make = (name, properties) => Object.assign(document.createElement(name), properties);
  const [zone, input, chosen, bar, progress, error, send, cancel] =
    ['.zone', 'input', 'ul', 'progress', '[role=status]', '[role=alert]', '.send', '.cancel'].map(find);
  const most = Number(form.dataset.most);
  const isFolder = 'folder' in form.dataset;
  const units = ['bytes', 'KB', 'MB', 'GB', 'TB'];
  const sizeOf = (bytes) => {
    const step = bytes < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(bytes) / 3));
    return Math.round((bytes / 1000 ** step) * 10) / 10 + ' ' + units[step];
  };
  const row = (name, bytes) => {
    const item = make('li', {});
    item.append(make('bdi', { textContent: name }), make('span', { textContent: sizeOf(bytes) }));
    return item;
  };
  const say = (text) => { error.textContent = text; error.hidden = text === ''; };
  let files = [];
  const received = [];
  let request;
  // The script opens the file dialog instead of the browser's message.
  input.required = false;
  input.multiple = isFolder && !('once' in form.dataset);
  const choose = (list) => {
    files = input.multiple ? [...list] : [...list].slice(0, 1);
    const arrived = received.map((each) => each.cloneNode(true));
    for (const each of arrived) each.lastChild.textContent = '✓ received';
    chosen.replaceChildren(...arrived, ...files.map(({ name, size }) => row(name, size)));
    chosen.hidden = files.length + received.length === 0;
    const large = files.find(({ size }) => size > most);
    say(large ? large.name + ' is too large. The limit is ' + form.dataset.limit + '.' : '');
    send.disabled = large !== undefined;
    send.textContent = files.length > 1 ? 'Upload ' + files.length + ' files' : 'Upload';
  };
  input.addEventListener('change', () => choose(input.files));
  for (const name of ['dragenter', 'dragover']) zone.addEventListener(name, () => zone.classList.add('over'));
  for (const name of ['dragleave', 'drop']) zone.addEventListener(name, () => zone.classList.remove('over'));
  const put = (file, before, total) =>
    new Promise((resolve, reject) => {
      request = new XMLHttpRequest();
      const began = performance.now();
      request.upload.onprogress = ({ loaded }) => {
        const done = before + loaded;
        bar.value = total === 0 ? 1 : done / total;
        const seconds = ((total - done) * (performance.now() - began)) / 1000 / Math.max(loaded, 1);
        const left = seconds > 90 ? ', about ' + Math.round(seconds / 60) + ' minutes left' : seconds > 5 ? ', about ' + Math.round(seconds) + ' seconds left' : '';
        progress.textContent = loaded === file.size ? 'Storing ' + file.name + '…' : sizeOf(done) + ' of ' + sizeOf(total) + left;
      };
      request.onerror = () => reject(new Error('The connection was lost. Try again.'));
      request.onabort = () => reject(new Error('You cancelled the upload.'));
      request.onload = () => {
        let answer = {};
        try { answer = JSON.parse(request.responseText); } catch {}
        if (request.status === 201 && answer.data) resolve(answer.data);
        else reject(new Error(answer.error ?? 'The file wasn’t uploaded. Try again.'));
      };
      request.open('PUT', isFolder ? encodeURIComponent(file.name) : location.href);
      request.setRequestHeader('accept', 'application/json');
      request.setRequestHeader('content-type', 'application/octet-stream');
      request.send(file);
    });
  const stay = (event) => event.preventDefault();
  const busy = (isBusy) => {
    for (const each of [bar, progress, cancel]) each.hidden = !isBusy;
    for (const each of [zone, send]) each.hidden = isBusy;
    (isBusy ? window.addEventListener : window.removeEventListener).call(window, 'beforeunload', stay);
  };
  const sendAll = async () => {
    const total = files.reduce((sum, { size }) => sum + size, 0);
    let before = 0;
    say('');
    bar.value = 0;
    busy(true);
    cancel.focus();
    try {
      while (files.length > 0) {
        const [file] = files;
        const { filename, size_bytes } = await put(file, before, total);
        before += file.size;
        received.push(row(isFolder ? filename : file.name, size_bytes));
        files.shift();
      }
      const done = document.querySelector('#done');
      done.querySelector('ul').replaceChildren(...received);
      if (received.length > 1) done.querySelector('span').textContent = 'files';
      done.querySelector('time').textContent = new Date().toLocaleString('en-GB', { day: 'numeric', month: 'long', hour: '2-digit', minute: '2-digit' });
      document.querySelector('#ask').hidden = true;
      done.hidden = false;
      document.title = done.querySelector('h1').textContent;
      done.querySelector('h1').focus();
    } catch ({ message }) {
      choose(files);
      say(message);
    }
    busy(false);
    if (!error.hidden) send.focus();
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    if (files.length === 0) input.click();
    else void sendAll();
  });
  cancel.addEventListener('click', () => request?.abort());
  choose(input.files);
}`;

/** What an outsider may know of an upload link. */
export interface AskedFile {
  /** The name of the account that asks for the file. */
  readonly account: string;
  /** The name that the file gets; undefined where it keeps its own. */
  readonly name: string | undefined;
  readonly maxBytes: number;
  readonly expiresAt: Micros;
  readonly isOnce: boolean;
  readonly now: Micros;
}

/** What an outsider may know of a download link. */
export interface SharedFile extends Pick<AskedFile, 'account' | 'expiresAt' | 'isOnce' | 'now'> {
  readonly name: string;
  readonly size: number;
}

export interface Receipt {
  readonly filename: string;
  readonly size_bytes: number;
  readonly received_at: string;
}

export interface LinkPages {
  /** The form of an upload link. */
  form(of: AskedFile): Promise<Response>;
  /** The page of a download link, before anything is downloaded. */
  download(of: SharedFile): Promise<Response>;
  /** The page of a link to a password, before it is shown. */
  password(of: Pick<SharedFile, 'account' | 'expiresAt' | 'now'>): Promise<Response>;
  shownPassword(password: string): Promise<Response>;
  /** The answer to a browser without JavaScript. */
  receipt(of: AskedFile, receipt: Receipt): Promise<Response>;
  /** @param isUpload whether a file was sent, so that it can be tried again. */
  refusal(text: string, status: number, isUpload: boolean): Promise<Response>;
}

/** For every response to a link: its content is not run, framed or cached, and the page's URL is not sent elsewhere. */
export const LINK_HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; sandbox",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

/** With the time if it is soon, and the year if it is another. The script shows it in the reader's zone. */
function until(at: Micros, now: Micros) {
  const date = new Date(at / 1000);
  const isSoon = at - now < 2 * DAY;
  const isOtherYear = date.getUTCFullYear() !== new Date(now / 1000).getUTCFullYear();
  const text = date.toLocaleString('en-GB', {
    day: 'numeric',
    month: 'long',
    ...(isOtherYear && { year: 'numeric' }),
    ...(isSoon && { hour: '2-digit', minute: '2-digit' }),
    timeZone: 'UTC',
  });
  return isSoon ? html`<time datetime="${formatMicros(at)}">${text} UTC</time>` : text;
}

const ARROW = raw(
  '<svg class="arrow" viewBox="0 0 24 24" aria-hidden="true"><path d="M12 16V4m0 0L7 9m5-5 5 5M4 15v3a2 2 0 0 0 2 2h12a2 2 0 0 0 2-2v-3"/></svg>',
);
const SIGN = raw('<div class="sign" aria-hidden="true">✓</div>');

const received = (account: string, rows: unknown, at: unknown, more: unknown) =>
  html`${SIGN}
    <h1 tabindex="-1"><bdi>${plainText(account)}</bdi> has received your <span>file</span></h1>
    <p class="quiet">${at}. You can close this page.</p>
    <ul>
      ${rows}
    </ul>
    ${more}`;

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

  async function page(title: string, content: unknown, foot: unknown, status = 200): Promise<Response> {
    const text = await html`<!doctype html>
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <title>${title}</title>
          ${raw(`<style>${STYLE}</style>`)}
        </head>
        <body>
          <main>${content}</main>
          ${foot}${raw(`<script>${SCRIPT}</script>`)}
        </body>
      </html>`;
    return new Response(text.toString(), { status, headers });
  }

  const encrypted = (account: string) =>
    html`<footer>Files go directly to <bdi>${plainText(account)}</bdi>, encrypted in transit.</footer>`;

  return {
    form({ account, name, maxBytes, expiresAt, isOnce, now }) {
      const what = name === undefined && !isOnce ? 'files' : 'a file';
      const limit = limitInWords(maxBytes);
      const again = isOnce
        ? ''
        : html`<form>
            <button class="plain">Upload ${name === undefined ? 'more files' : 'another version'}</button>
          </form>`;
      return page(
        `${plainText(account)} asks you for ${what}`,
        html`<div id="ask">
            <h1><bdi>${plainText(account)}</bdi> asks you for ${what}</h1>
            <p class="quiet">
              Up to ${limit}${what === 'files' ? ' each' : ''}, until
              ${until(expiresAt, now)}.${isOnce ? ' You can use this link once.' : ''}
            </p>
            <form
              method="post"
              enctype="multipart/form-data"
              data-most="${maxBytes}"
              data-limit="${limit}"
              ${name === undefined ? raw('data-folder') : ''}
              ${isOnce ? raw('data-once') : ''}
            >
              <label class="zone">
                ${ARROW}
                <strong>Choose ${what}, or drop ${what === 'files' ? 'them' : 'it'} here</strong>
                ${name === undefined ? '' : html`<small class="quiet">It will be stored as <bdi>${plainText(name)}</bdi>.</small>`}
                <input type="file" name="file" required />
              </label>
              <ul hidden></ul>
              <progress aria-label="Progress" value="0" max="1" hidden></progress>
              <p class="hint quiet" role="status" hidden></p>
              <p class="error" role="alert" hidden></p>
              <button class="send">Upload</button>
              <button type="button" class="plain cancel" hidden>Cancel</button>
            </form>
          </div>
          <div id="done" hidden>${received(account, '', html`<time></time>`, again)}</div>`,
        encrypted(account),
      );
    },
    download({ account, name, size, expiresAt, isOnce, now }) {
      return page(
        `${plainText(account)} shares a file with you`,
        html`<h1><bdi>${plainText(account)}</bdi> shares a file with you</h1>
          <p class="quiet">Until ${until(expiresAt, now)}.${isOnce ? ' You can download it once.' : ''}</p>
          <ul>
            <li><bdi>${plainText(name)}</bdi><span>${limitInWords(size)}</span></li>
          </ul>
          <a class="button" href="?download">Download</a>`,
        html`<footer>The file comes directly from <bdi>${plainText(account)}</bdi>, encrypted in transit.</footer>`,
      );
    },
    password({ account, expiresAt, now }) {
      return page(
        `${plainText(account)} sends you a password`,
        html`<h1><bdi>${plainText(account)}</bdi> sends you a password</h1>
          <p class="quiet">
            It belongs to the SFTP login that you get in another message. It is shown once, until
            ${until(expiresAt, now)}.
          </p>
          <form method="post"><button>Show the password</button></form>`,
        '',
      );
    },
    shownPassword(password) {
      return page(
        'Your password',
        html`<h1>Your password</h1>
          <p><code>${password}</code></p>
          <button class="plain copy" hidden>Copy</button>
          <p class="quiet">
            Store it now, in your SFTP program or a password manager. This link does not show it again.
          </p>`,
        '',
      );
    },
    receipt({ account, isOnce }, { filename, size_bytes, received_at }) {
      return page(
        `${plainText(account)} has received your file`,
        received(
          account,
          html`<li><bdi>${plainText(filename)}</bdi><span>${limitInWords(size_bytes)}</span></li>`,
          html`<time datetime="${received_at}">${received_at.slice(0, 16).replace('T', ' ')} UTC</time>`,
          isOnce ? '' : html`<form><button class="plain">Upload another file</button></form>`,
        ),
        encrypted(account),
        201,
      );
    },
    refusal(text, status, isUpload) {
      const isEnded = status === 403 || status === 410;
      const title = isEnded
        ? 'This link doesn’t work'
        : isUpload
          ? 'The file wasn’t uploaded'
          : status === 404
            ? 'There is no file here'
            : 'This did not work';
      const again = isUpload && !isEnded ? html`<form><button class="plain">Try again</button></form>` : '';
      return page(
        title,
        html`<h1>${title}</h1>
          <p>${text}</p>
          ${again}`,
        '',
        status,
      );
    },
  };
}
