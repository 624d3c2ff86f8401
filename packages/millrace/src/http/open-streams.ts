import type { Token } from "../access/tokens.ts";
import { MillraceError } from "../contract/errors.ts";

/** Limits of open streams in one isolate: per token or user, per first token with its descendants, per tenant. */
const BOUNDS: readonly { most: number; of: (caller: Token) => string; holder: string }[] = [
  { most: 10, of: ({ id }) => `token ${id}`, holder: "This token holds" },
  { most: 30, of: ({ rootId }) => `family ${rootId}`, holder: "The tokens minted from the same first token hold" },
  { most: 60, of: ({ tenantId }) => `tenant ${tenantId}`, holder: "The tokens of this tenant hold" },
];

/** After this time a stream is no longer counted, in case its connection closed without a signal. No stream lasts longer than this time. */
const FORGOTTEN_AFTER_MS = 300_000;
const FULL_MS = 10_000;

/** The open streams by the name of each limit, with the time when each is no longer counted. */
const open = new Map<string, Set<{ until: number }>>();

/** Counts an open stream until it is released. Errors: `rate_limited` if a limit is reached. */
export function holdStream(caller: Token): () => void {
  const counted = BOUNDS.map(({ of, ...bound }) => ({ ...bound, name: of(caller), held: heldBy(of(caller)) }));
  const full = counted.find(({ held, most }) => held.size >= most);
  if (full) {
    const next = `Close one, follow the whole engine with GET /v1/stream, or retry in ${FULL_MS / 1000} s.`;
    throw new MillraceError("rate_limited", `${full.holder} ${full.most} streams open here. ${next}`, { delayMs: FULL_MS });
  }
  const stream = { until: Date.now() + FORGOTTEN_AFTER_MS };
  for (const { name, held } of counted) open.set(name, held.add(stream));
  return () => {
    for (const { name, held } of counted) {
      held.delete(stream);
      if (held.size === 0 && open.get(name) === held) open.delete(name);
    }
  };
}

function heldBy(name: string): Set<{ until: number }> {
  const held = open.get(name) ?? new Set();
  for (const one of held) if (one.until <= Date.now()) held.delete(one);
  return held;
}
