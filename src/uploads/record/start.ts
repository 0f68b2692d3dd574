/** The recording side of uploads, wired: evidence goes into the ledger, and the recorder acts upon it. */
import type { Handle } from './evidence.ts';
import { SessionNotes } from './history.ts';
import { Ledger } from './ledger.ts';
import { Recorder, type RecorderOptions } from './recorder.ts';
import { Schedule } from './schedule.ts';
import { Unmatched } from './unmatched.ts';

export interface RecordingOptions extends Omit<RecorderOptions, 'schedule' | 'notes' | 'unmatched'> {
  /** Whether the kernel knows a handle whose open is in doubt. */
  exists(handle: Handle): boolean;
}

export function startRecording(options: RecordingOptions) {
  const { isTemporary, exists, rescan } = options;
  const unmatched = new Unmatched();
  const notes = new SessionNotes(() => recorder.wake());
  const schedule = new Schedule(() => recorder.wake());
  const recorder: Recorder = new Recorder({ ...options, schedule, notes, unmatched });
  const ledger = new Ledger({
    schedule,
    isTemporary,
    exists,
    nameless(directoryId, close) {
      unmatched.addClose(directoryId, close);
      rescan(directoryId);
    },
  });
  return { ledger, schedule, notes, recorder, unmatched };
}
