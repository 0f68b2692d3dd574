/** The body of a `file.uploaded` webhook (specification, "Body"), its fields in the specification's order. */
import { formatMicros, type Micros } from '../clock.ts';

export interface UploadedFile {
  readonly directory: { readonly id: string; readonly slug: string; readonly external_id: string | null };
  /** The path below the directory, as text: bytes that are not UTF-8 are U+FFFD here. */
  readonly filename: string;
  readonly sizeBytes: number;
  readonly uploadedAt: Micros;
}

/** The exact bytes to sign and send, at every attempt. */
export function payload({ directory, filename, sizeBytes, uploadedAt }: UploadedFile): Buffer {
  return Buffer.from(
    JSON.stringify({
      event: 'file.uploaded',
      directory_id: directory.id,
      external_id: directory.external_id,
      filename,
      size_bytes: sizeBytes,
      uploaded_at: formatMicros(uploadedAt),
      directory: directory.slug,
    }),
  );
}
