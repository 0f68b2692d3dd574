/** For a process that is given an environment of its own: where V8 keeps what it makes of the sources (each-file-apart.cjs). */
const place = process.env['NODE_COMPILE_CACHE'];

export const compileCache = place === undefined ? {} : { NODE_COMPILE_CACHE: place };
