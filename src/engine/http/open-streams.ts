import { MillraceError } from "../contract/errors.ts";

/** Streams that one token, or a person, holds open in one isolate. */
const MAX_OPEN_STREAMS = 10;

/** No stream is open for longer: one whose connection died without a word gives its place back. */
const FORGOTTEN_AFTER_MS = 300_000;
/** Who finds no place may find one after so long. */
const FULL_MS = 10_000;

/** When each open stream is forgotten at the latest, by whose it is. */
const open = new Map<string, Set<{ until: number }>>();

/** Counts a stream until it is released. Errors: `rate_limited` where its caller holds as many as it may. */
export function holdStream(callerId: string): () => void {
  const own = open.get(callerId) ?? new Set();
  for (const one of own) if (one.until <= Date.now()) own.delete(one);
  if (own.size >= MAX_OPEN_STREAMS) {
    const said = `This token holds ${MAX_OPEN_STREAMS} streams open. Close one, follow the whole engine by GET /v1/stream, or come again in ${FULL_MS / 1000} s.`;
    throw new MillraceError("rate_limited", said, { delayMs: FULL_MS });
  }
  const held = { until: Date.now() + FORGOTTEN_AFTER_MS };
  own.add(held);
  open.set(callerId, own);
  return () => {
    own.delete(held);
    if (own.size === 0 && open.get(callerId) === own) open.delete(callerId);
  };
}
