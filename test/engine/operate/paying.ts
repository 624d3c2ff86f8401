import { defineStep, notRetryable } from "millrace";
import { instances } from "millrace/operate";
import * as z from "zod";
import { operator, probeEnv } from "../harness.ts";
import { back, ONCE } from "./operating.ts";

export type Of = "keyed" | "natural" | "lookup" | "once";

/** A simulated bank: its availability, and the requests that it received. */
export interface Bank {
  away: boolean;
  readonly log: string[];
}

export const bank = (): Bank => ({ away: true, log: [] });

/**
 * A payment that happens at its first attempt. Its answer is lost while the bank is unavailable. With `refuses` the bank refuses the
 * payment instead.
 */
export function pays(at: Bank, of: Of, how: "loses" | "refuses" = "loses") {
  const run = async () => {
    at.log.push("pay");
    if (at.away) throw how === "loses" ? new Error("No answer.") : notRetryable("The bank refuses the payment.");
    return { paid: 1 };
  };
  const more = {
    ...ONCE,
    output: z.object({ paid: z.number() }),
    run,
    undo: back(async () => at.log.push("pay back")) as never,
  };
  const lookup = async () => {
    at.log.push("ask");
    return at.log.includes("pay") ? { paid: 2 } : undefined;
  };
  return of === "lookup" ? defineStep({ effect: of, lookup, ...more }) : defineStep({ effect: of, ...more });
}

/** An output that the payment's schema refuses. */
export const UNFIT = { output: { paid: "seven" } };

export const standing = (id: string) => instances.get(probeEnv, operator, id);
