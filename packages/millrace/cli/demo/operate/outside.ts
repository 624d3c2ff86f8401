import type { IncomingMessage, ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { serve } from "../loopback.ts";

/** What those outside do for an order. */
export const KINDS = ["reservations", "releases", "bookings", "mails"] as const;
export type Kind = (typeof KINDS)[number];

/** Something that was done, as whoever did it wrote it down. */
export interface Entry {
  id: string;
  kind: Kind;
  order: string;
}

/** Other people's servers, and the book of what they did: a warehouse, a courier, and a service that sends mails. */
export interface Outside {
  /** Variables by which an engine is told of them. */
  vars: Record<string, string>;
  /** Everything that was done, in its order. */
  book: Entry[];
  /** The orders whose bookings were refused, in the order of arrival. */
  refused: string[];
  /** Whether the courier takes bookings. */
  letBook(open: boolean): void;
  /** Has the next mail for this order go out, and the answer get lost. */
  loseAnswer(order: string): void;
  stop(): void;
}

/** Starts them on a free port of this machine. The courier takes no bookings at first. */
export async function startOutside(): Promise<Outside> {
  const book: Entry[] = [];
  // Warehouse and courier honour an idempotency key; who sends mails has never heard of one.
  const known = new Map<string, Entry>();
  const lost = new Set<string>();
  let isOpen = false;
  const refused: string[] = [];

  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const kind = KINDS.find((one) => request.url === `/${one}`);
    const { order } = (await json(request)) as { order: string };
    if (!kind) return void response.writeHead(404).end();
    if (kind === "bookings" && !isOpen) {
      refused.push(order);
      return answer(response, 403, { error: "The courier answered 403: the account's key has expired." });
    }
    const key = `${kind} ${request.headers["idempotency-key"]}`;
    const before = kind === "mails" ? undefined : known.get(key);
    const entry = before ?? { id: `${kind.slice(0, -1)}-${book.length + 1}`, kind, order };
    if (!before) book.push(entry);
    known.set(key, entry);
    if (kind === "mails" && lost.delete(order)) return void response.destroy();
    answer(response, 201, { id: entry.id });
  };
  const server = await serve(take);
  return {
    ...server,
    vars: { OUTSIDE_URL: server.url },
    book,
    refused,
    letBook: (open) => {
      isOpen = open;
    },
    loseAnswer: (order) => void lost.add(order),
  };
}

function answer(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
