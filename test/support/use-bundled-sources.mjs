// `node --import 'this?folder=FOLDER'`, and the checkout's sources and packages come from the script that bundled-sources.ts has made there.
// A copy of the sources elsewhere, as it is installed, gets its own.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire, registerHooks } from 'node:module';
import { constants, Script } from 'node:vm';

const project = new URL('../../', import.meta.url).href;
const folder = new URL(import.meta.url).searchParams.get('folder');
const compiled = `${folder}/compiled`;
let script;
let modules;

/** Evaluates that module, unless that has been done. */
export function moduleOf(key) {
  if (modules === undefined) {
    const filename = `${folder}/bundle.js`;
    script = new Script(readFileSync(filename, 'latin1'), {
      filename,
      cachedData: existsSync(compiled) ? readFileSync(compiled) : undefined,
      importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    });
    const require = createRequire(project);
    const module = { exports: {} };
    script.runInThisContext()(require, module, require, (name) => import.meta.resolve(name));
    modules = module.exports;
  }
  return modules[key]();
}

/** Keeps what V8 has compiled so far for later processes. */
export function keepCompiled() {
  writeFileSync(compiled, script.createCachedData());
}

const names = JSON.parse(readFileSync(`${folder}/exports.json`, 'utf8'));
registerHooks({
  resolve(specifier, context, nextResolve) {
    const isOurs = Object.hasOwn(names, specifier) && context.parentURL?.startsWith(project);
    return isOurs
      ? { url: `bundled:${specifier}`, format: 'module', shortCircuit: true }
      : nextResolve(specifier, context);
  },
  load(url, context, nextLoad) {
    const key = url.startsWith(project) ? `./${url.slice(project.length)}` : url.replace(/^bundled:/, '');
    const exported = names[key];
    if (exported === undefined) return nextLoad(url, context);
    const lines = exported.map((name) =>
      name === 'default' ? 'export default $.default;' : `export const ${name} = $.${name};`,
    );
    const source = `import { moduleOf } from '${import.meta.url}';\nconst $ = moduleOf(${JSON.stringify(key)});\n${lines.join('\n')}`;
    return { format: 'module', source, shortCircuit: true };
  },
});
