// `node --import` this, and the checkout's sources get kysely as one file (bundled-kysely.ts), if that has been made. A copy of the
// sources elsewhere, as it is installed, gets the package that is beside it.
import { existsSync } from 'node:fs';
import { registerHooks } from 'node:module';

const project = new URL('../../', import.meta.url).href;
const bundle = (name) => new URL(`node_modules/.cache/kysely/${name}.mjs`, project);
const urls = new Map([
  ['kysely', bundle('kysely')],
  ['kysely/migration', bundle('migration')],
]);

if ([...urls.values()].every((url) => existsSync(url))) {
  registerHooks({
    resolve(specifier, context, nextResolve) {
      const url = context.parentURL?.startsWith(project) ? urls.get(specifier) : undefined;
      return url ? { url: url.href, format: 'module', shortCircuit: true } : nextResolve(specifier, context);
    },
  });
}
