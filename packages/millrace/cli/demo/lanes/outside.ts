import type { IncomingMessage, ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { serve } from "../loopback.ts";

/** A change as the warehouse heard it. */
export interface Heard {
  lane: string;
  /** The message's id. */
  id: string;
  order: string;
  step: number;
  taken: boolean;
}

/** A call as the carrier saw it. */
export interface Called {
  caller: number;
  at: number;
  refused: boolean;
}

/** Who asked for the sum of the till, under which token. */
export interface Asked {
  holder: string;
  token: number;
}

/** Other people's servers, which write down what they hear: a warehouse, a carrier, and the till of a shop. */
export interface Outside {
  url: string;
  /** Every change, in the order of arrival. */
  heard: Heard[];
  calls: Called[];
  asked: Asked[];
  /** Has the warehouse refuse a step of every order, until another is named. */
  refuse(step: number | undefined): void;
  /** The carrier has had enough: it answers 429 with `Retry-After` for so many seconds from the next call on. */
  tire(seconds: number): void;
  /** The till answers this holder only when the promise has come true. */
  stall(holder: string, until: Promise<unknown>): void;
  stop(): void;
}

/** What the warehouse needs for a change, in milliseconds. */
const WAREHOUSE_MS = 25;
/** What the till says. */
export const TILL_CENTS = 4200;

/** Starts them on a free port of this machine. */
export async function startOutside(): Promise<Outside> {
  const heard: Heard[] = [];
  const calls: Called[] = [];
  const asked: Asked[] = [];
  let refused: number | undefined;
  let tired: { forMs: number; until: number } | undefined;
  const stalled = new Map<string, Promise<unknown>>();

  const warehouse = async (change: Omit<Heard, "taken">): Promise<Answer> => {
    const taken = change.step !== refused;
    heard.push({ ...change, taken });
    await sleep(WAREHOUSE_MS);
    return { status: taken ? 204 : 503 };
  };
  const carrier = async ({ caller }: { caller: number }): Promise<Answer> => {
    const at = Date.now();
    if (tired?.until === 0) tired.until = at + tired.forMs;
    const refuses = tired !== undefined && at < tired.until;
    calls.push({ caller, at, refused: refuses });
    return refuses ? { status: 429, headers: { "retry-after": `${Math.ceil((tired?.forMs ?? 0) / 1000)}` } } : { status: 204 };
  };
  const till = async (question: Asked): Promise<Answer> => {
    asked.push(question);
    await stalled.get(question.holder);
    return { status: 200, text: `${TILL_CENTS}` };
  };
  const places: Record<string, (body: never) => Promise<Answer>> = { "/changes": warehouse, "/carrier": carrier, "/till": till };

  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const place = places[request.url ?? ""];
    const { status, headers, text } = place ? await place((await json(request)) as never) : { status: 404 };
    response.writeHead(status, headers).end(text);
  };
  const server = await serve(take);
  return {
    ...server,
    heard,
    calls,
    asked,
    refuse: (step) => {
      refused = step;
    },
    tire: (seconds) => {
      tired = { forMs: seconds * 1000, until: 0 };
    },
    stall: (holder, until) => void stalled.set(holder, until),
  };
}

interface Answer {
  status: number;
  headers?: Record<string, string>;
  text?: string;
}
