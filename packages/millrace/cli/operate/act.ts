import { Misuse } from "../command.ts";
import type { Asked } from "./verb.ts";

/** Why something is done: the audit keeps it. */
export const REASON = { reason: { value: "TEXT", says: "the reason, kept in the audit" } };
export const DRY_RUN = { "dry-run": { says: "print the consequences and change nothing" } };

/** What is given for a dry run, of which nothing is kept. */
const LOOKING = "a dry run";

const IS_PLACE = /^["'“]?(?:…|\.\.\.)["'”]?$/;

/** The reason that was given. Errors: a `Misuse` where there is none, or the place for one that a line has which is ready to be copied. */
export function reasonOf({ text }: Pick<Asked<"reason">, "text">, isDryRun = false): string {
  const reason = text("reason")?.trim() || (isDryRun ? LOOKING : undefined);
  if (reason === undefined) throw new Misuse("--reason is missing: give the reason; the audit keeps it.");
  if (IS_PLACE.test(reason)) throw new Misuse(`--reason ${reason} is a placeholder: give the reason; the audit keeps it.`);
  return reason;
}
