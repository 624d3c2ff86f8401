import { DurableObject } from "cloudflare:workers";
import { NonRetryableError } from "cloudflare:workflows";
import { type Envelope, MillraceError } from "millrace";
import * as z from "zod";

class Money {
  cents = 7;
}

class HttpError extends Error {
  override readonly name = "HTTPError";
  readonly response = new Response("busy", { status: 503 });
  readonly request = new Request("https://shop.example/");
}

/** The `cause` of an error, as the clients of upstream services throw it. */
export const causes: Readonly<Record<string, () => unknown>> = {
  "a plain error": () => new Error("Declined."),
  "an error with data": () => Object.assign(new Error("Declined."), { data: { code: 7, at: new Date(0), list: [new Map([["a", 1]])] } }),
  "an error of a custom class": () => new (class CardError extends Error {})("Declined."),
  "several errors": () => new AggregateError([new Error("Declined.")], "All failed."),
  "no error": () => ({ status: 402, reason: "Declined." }),
  "an error with a response": () => new HttpError("Declined."),
  "an answer": () => new Response("Declined.", { status: 402 }),
  "an error with functions": () => Object.assign(new Error("Declined."), { config: { transform: [() => 1] }, toJSON: () => ({}) }),
  "a schema's error": () => z.object({ id: z.string() }).safeParse({}).error,
  "an error with an AbortSignal": () => Object.assign(new Error("Declined."), { signal: AbortSignal.abort() }),
  "an error with a URL": () => Object.assign(new Error("Declined."), { url: new URL("https://shop.example/") }),
  "an error with a symbol": () => Object.assign(new Error("Declined."), { mark: Symbol("mark") }),
  "an error with a promise": () => Object.assign(new Error("Declined."), { later: Promise.resolve(1) }),
  "an error with an object of a class": () => Object.assign(new Error("Declined."), { price: new Money() }),
  "an error with a weak map": () => Object.assign(new Error("Declined."), { known: new WeakMap() }),
  "several errors, one with a response": () => new AggregateError([new HttpError("Declined.")], "All failed."),
  "a cause with a response": () => new Error("Refused.", { cause: new HttpError("Declined.") }),
  "an error twice": () => {
    const error = new Error("Declined.");
    return new AggregateError([error, error], "All failed.", { cause: error });
  },
  "a cyclic error": () => {
    const error = new Error("Declined.");
    return Object.assign(error, { self: error, cause: error });
  },
  "an error with a field that throws": () =>
    Object.defineProperty(new Error("Declined."), "data", { get: () => JSON.parse("?"), enumerable: true }),
  "an error of thousands of fields": () => Object.assign(new Error("Declined."), { rows: Array.from({ length: 5000 }, (_, n) => ({ n })) }),
};

/** A Durable Object that receives events and counts each key once. */
export class Listener extends DurableObject {
  async onEvent(envelope: Envelope): Promise<void> {
    await this.ctx.storage.put(envelope.idempotency_key, envelope.message_type);
  }

  async heard(): Promise<number> {
    return (await this.ctx.storage.list()).size;
  }

  /** Throws an engine error with this cause. */
  async decline(cause: string): Promise<never> {
    throw new MillraceError("card_declined", "The card is declined.", {
      terminal: true,
      unclear: false,
      upstreamStatus: 402,
      cause: causes[cause]?.(),
    });
  }

  /** Throws a NonRetryableError, as an object of another Worker does. */
  async refuse(said: string): Promise<never> {
    throw new NonRetryableError(said);
  }
}
