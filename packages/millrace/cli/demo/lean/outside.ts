import type { IncomingMessage, ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { serve } from "../loopback.ts";

/** What those outside do for an order. */
export const KINDS = ["reservations", "bookings", "mails"] as const;

/** A call of somebody outside. */
export interface Called {
  /** What was asked for: one of `KINDS`. */
  kind: string;
  order: string;
  /** The idempotency key that came with it. */
  key: string;
}

/** Other people's servers: a warehouse, a courier and a service that sends mails. Each does a thing once for each key. */
export interface Outside {
  url: string;
  /** Every call, in the order of arrival. */
  calls: Called[];
  /** From now on each answer takes so long. */
  takes(ms: number): void;
  stop(): void;
}

/** What the courier calls a booking. */
export const bookingOf = (key: string) => `booking ${key.slice(0, 8)}`;

/** Starts them on a free port of this machine. */
export async function startOutside(): Promise<Outside> {
  const calls: Called[] = [];
  let takesMs = 0;
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const { order } = (await json(request)) as { order: string };
    const key = String(request.headers["idempotency-key"]);
    calls.push({ kind: (request.url ?? "").slice(1), order, key });
    await sleep(takesMs);
    response.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify({ id: bookingOf(key) }));
  };
  const server = await serve(take);
  return {
    ...server,
    calls,
    takes: (ms) => {
      takesMs = ms;
    },
  };
}
