// `node --import` this, and the checkout's sources get each of some packages as one file (bundled-packages.ts), if that has been made. A
// copy of the sources elsewhere, as it is installed, gets the packages that are beside it.
import { existsSync, readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

const project = new URL('../../', import.meta.url).href;
const modules = new URL('node_modules/', project).href;
const folder = new URL('.cache/packages/', modules);
const index = new URL('index.json', folder);
const files = existsSync(index) ? new Map(Object.entries(JSON.parse(readFileSync(index, 'utf8')))) : new Map();

registerHooks({
  resolve(specifier, context, nextResolve) {
    const { parentURL = '', conditions } = context;
    // A package that is not bundled may require another one, and gets what it expects.
    if (!parentURL.startsWith(project) || conditions.includes('require')) return nextResolve(specifier, context);
    // Our own name files as they are. Node would look for each on the disk, and in each folder above for a package.json.
    if (specifier.startsWith('.') && specifier.endsWith('.ts') && !parentURL.startsWith(modules)) {
      return { url: new URL(specifier, parentURL).href, format: 'module-typescript', shortCircuit: true };
    }
    const file = files.get(specifier);
    if (file === undefined) return nextResolve(specifier, context);
    return { url: new URL(`${file}.mjs`, folder).href, format: 'module', shortCircuit: true };
  },
});
