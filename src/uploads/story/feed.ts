/**
 * Feeds the recorder: tells each line of the transfer log to the directory of its session, in order. Directories take turns,
 * so that a session that says a lot delays only its own.
 */
import type { Clock } from '../../clock.ts';
import type { Log } from '../../log.ts';
import { type FilesRoot, pathOf } from '../file-path.ts';
import type { Jail, JailQueries } from '../jails.ts';
import { Lanes } from '../log/lanes.ts';
import { readEvent } from '../log/log-line.ts';
import type { Line } from '../log/transfer-log-worker.ts';
import type { WriteBarrier } from '../log/write-barrier.ts';
import { filesHeldBy, isAlive, isJailedWith, processesFrom, servesSftp, uidOf } from '../processes.ts';
import type { Recorder } from './recorder.ts';

/** Lines and operations of one directory beyond which its lines come slowly. */
const BACKLOG = 500;

export interface FeedOptions {
  readonly log: Log;
  readonly clock: Clock;
  readonly filesRoot: FilesRoot;
  readonly jails: Pick<JailQueries, 'byUsername' | 'byUid'>;
  readonly recorder: Recorder;
  readonly barrier: WriteBarrier;
  /** The lowest UID that a directory may have. */
  readonly firstUid: number;
  /** The client's address of a session that was there before, undefined when it is none of this berth's. */
  addressOf(username: string, pid: number): string | undefined;
  /** A session of that directory is there. */
  live(jail: Jail): void;
  /** Lines about that directory were lost. */
  compare(directoryId: string): void;
}

export class Feed {
  readonly #options: FeedOptions;
  readonly #lanes: Lanes;
  readonly #jails = new Map<number, Jail>();

  constructor(options: FeedOptions) {
    this.#options = options;
    const { log, recorder } = options;
    this.#lanes = new Lanes({
      directoryOf: (pid) => this.#jails.get(pid)?.id,
      follow: (line) => this.#follow(line),
      failed: (error) => log.error({ err: error }, 'cannot follow a line of the transfer log'),
      isBusy: (id) => recorder.backlog(id) > BACKLOG,
      lost: (id) => this.#resume(id),
    });
  }

  hear(lines: readonly Line[]): void {
    for (const line of lines) {
      if (line.pid === 0) this.#options.barrier.cameBack(line.text);
      else this.#lanes.push(line);
    }
  }

  /** Resolves when what sshd had logged about the directory before the call has been handed over. */
  async heard(directoryId: string): Promise<void> {
    await this.#options.barrier.passed();
    await this.#lanes.passed(directoryId);
  }

  /** Takes up the sessions that are live already. */
  async adoptAll(): Promise<void> {
    for (const { pid, uid } of await processesFrom(this.#options.firstUid)) await this.#adopt(pid, uid);
  }

  /** Ends sessions whose process died without a word. */
  async sweep(): Promise<void> {
    const dead = [...this.#jails].filter(([pid]) => !isAlive(pid));
    await Promise.all([...new Set(dead.map(([, { id }]) => id))].map((id) => this.heard(id)));
    for (const [pid, jail] of dead) {
      if (this.#jails.get(pid) !== jail) continue;
      this.#jails.delete(pid);
      await this.#options.recorder.died(jail, pid, this.#options.clock.now());
    }
  }

  get sessions(): number {
    return this.#jails.size;
  }

  async close(): Promise<void> {
    await this.#lanes.running;
  }

  #follow({ at, pid, text }: Line): Promise<void> | undefined {
    const { recorder } = this.#options;
    if (text.startsWith('session opened ')) return this.#begin(pid, text, at);
    const jail = this.#jails.get(pid);
    if (!jail) return this.#adoptAndTell(pid, text, at);
    if (text.startsWith('session closed ')) this.#jails.delete(pid);
    recorder.add(jail, pid, text, at);
    return undefined;
  }

  async #begin(pid: number, text: string, at: number): Promise<void> {
    const { jails, live, recorder } = this.#options;
    const event = readEvent(text);
    if (event.kind !== 'session-opened') return;
    const jail = await jails.byUsername(event.username);
    if (!jail) return;
    live(jail);
    this.#jails.set(pid, jail);
    recorder.begin(jail, { pid, address: event.address }, at);
  }

  /** A process of which nothing was heard before: a session that began before this process, or none of ours. */
  async #adoptAndTell(pid: number, text: string, at: number): Promise<void> {
    await this.#adopt(pid, uidOf(pid));
    const jail = this.#jails.get(pid);
    if (jail) this.#options.recorder.add(jail, pid, text, at);
  }

  async #adopt(pid: number, uid: number | undefined): Promise<void> {
    const { firstUid, jails, addressOf, filesRoot, live, recorder } = this.#options;
    if (uid === undefined || uid < firstUid || this.#jails.has(pid)) return;
    const jail = await jails.byUid(uid);
    if (!jail) return;
    const username = jail.sftp_username;
    const address = addressOf(username, pid);
    // Another berth's, which has given out the same UID. One of ours whose monitor was killed is in our jail still.
    if (address === undefined && !isJailedWith(pid, filesRoot(username))) return;
    if (address === undefined || !servesSftp(pid)) return;
    live(jail);
    this.#jails.set(pid, jail);
    recorder.begin(jail, { pid, address }, undefined, writtenBy(pid, jail));
  }

  /** After lines were dropped: the kernel says who writes what, and a comparison what changed. */
  #resume(directoryId: string): void {
    for (const [pid, jail] of this.#jails) {
      if (jail.id !== directoryId) continue;
      this.#options.recorder.begin(jail, { pid, address: '' }, undefined, writtenBy(pid, jail));
    }
    this.#options.compare(directoryId);
  }
}

/** The files below its jail that the session's process writes. */
function writtenBy(pid: number, { sftp_username }: Jail) {
  const marker = `/${sftp_username}/files/`;
  return filesHeldBy(pid).flatMap(({ inode, path }) => {
    const start = path.indexOf(marker);
    return start === -1 ? [] : [{ inode, path: pathOf(path.subarray(start + marker.length)) }];
  });
}
