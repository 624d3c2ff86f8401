import type { HeldLock, LaneLook, Steered } from "millrace/operate";
import { askerOf } from "../../api-client.ts";
import { Refusal } from "../../command.ts";
import type { Engine } from "../../local/engine-process.ts";

/** A change as it is sent. */
export interface Change {
  order: string;
  step: number;
}

/** What the story needs of its Worker. `outside` is where the warehouse, the carrier and the till listen. */
export function lanesApi({ url, token }: Engine, outside: string) {
  // Its Worker has the engine's objects, and routes of its own.
  const ask = askerOf(url, token, ({ ok }) => ok);
  const steer = async (lane: string, order: string, verb: "resume" | "resend"): Promise<void> => {
    const answer = await ask<Steered>("POST", `/lanes/${lane}/${order}/${verb}`);
    if (!answer.done) throw new Refusal(answer.reason);
  };
  return {
    send: (lane: string, changes: readonly Change[]) =>
      ask<{ kept: number; known: number }>(
        "POST",
        `/lanes/${lane}`,
        changes.map((change) => ({ ...change, outside })),
      ),
    look: (lane: string, order: string) => ask<LaneLook>("GET", `/lanes/${lane}/${order}`),
    resume: (lane: string, order: string) => steer(lane, order, "resume"),
    resend: (lane: string, order: string) => steer(lane, order, "resend"),
    call: (caller: number) => ask<{ status: number }>("POST", "/calls", { outside, caller }),
    /** Closes a shop's books under its lock. Errors: a `Refusal` with what the Worker says. */
    closeBooks: (shop: string, holder: string) => ask<{ cents: number }>("POST", "/books", { outside, shop, holder }),
    books: (shop: string) => ask<{ holder: string; cents: number }[]>("GET", `/books/${shop}`),
    lock: (shop: string) => ask<HeldLock>("GET", `/books/${shop}/lock`),
    breakLock: (shop: string) => ask<{ broken: boolean }>("POST", `/books/${shop}/break`),
  };
}

export type LanesApi = ReturnType<typeof lanesApi>;
