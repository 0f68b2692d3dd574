/** `on-change.mjs FOLDER PIDFILE`: sends SIGTERM to the process that PIDFILE names whenever a file in FOLDER has changed. */
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { watch } from 'chokidar';

/** How long to gather changes: an editor writes several files at once. */
const GATHER_MS = 100;

const [folder = '', pidFile = ''] = process.argv.slice(2);
let timer;
watch(folder, { ignoreInitial: true }).on('all', () => {
  clearTimeout(timer);
  timer = setTimeout(end, GATHER_MS);
});

function end() {
  try {
    process.kill(Number(readFileSync(pidFile, 'utf8')), 'SIGTERM');
  } catch {
    // The process is about to be started.
  }
}
