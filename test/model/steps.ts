/** What the sessions of a model's story do. */

/** How a file is opened for writing. */
export type Opening = 'truncate' | 'append' | 'inPlace' | 'exclusive' | 'exclusiveThenTruncate' | 'denied';

/** How the last write goes. */
export type Writing =
  | 'whole'
  /** With a hole that the disk shows. */
  | 'sparse'
  /** With a hole that is smaller than a block. */
  | 'gap'
  /** The disk is full for a part of it. */
  | 'short'
  /** The disk is full, and sshd says so. */
  | 'refused';

export type Step =
  | {
      readonly kind: 'put';
      readonly path: string;
      readonly hold: number;
      readonly opening?: Opening;
      readonly writing?: Writing;
      /** What the session does between two writes. */
      readonly between?: readonly Step[];
      /** A second handle of the file, closed before the first. */
      readonly isTwice?: boolean;
      /** The handle is left open until the session ends. */
      readonly isLeft?: boolean;
      /** What is written has the size of the file at that path, and is another content. */
      readonly like?: string;
      /** Before the close, the client sets that file's mtime, as `put -p` does. */
      readonly isDatedLike?: boolean;
      /** Before the close, the client sets some mtime. */
      readonly isDated?: boolean;
    }
  | { readonly kind: 'rename' | 'replace'; readonly path: string; readonly to: string }
  /** Longer than the log may be late. */
  | { readonly kind: 'pause' }
  /** Between two writes: sets the size of the open file. */
  | { readonly kind: 'resizeOpen' }
  | {
      readonly kind:
        | 'remove'
        | 'makeFolder'
        | 'removeFolder'
        | 'stat'
        | 'badHandle'
        | 'resize'
        | 'resizeToOwn'
        | 'touch'
        | 'read';
      readonly path: string;
    };
