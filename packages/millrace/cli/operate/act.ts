import { Misuse } from "../command.ts";
import type { Asked } from "./verb.ts";

/** The reason that a dry run sends. The engine does not store the reason of a dry run. */
const LOOKING = "a dry run";

const IS_PLACE = /^["'“]?(?:…|\.\.\.)["'”]?$/;

/** The value of `--reason`. Errors: a `Misuse` if the reason is missing, or is still the placeholder of a printed command. */
export function reasonOf({ text }: Pick<Asked, "text">, isDryRun = false): string {
  const reason = text("reason")?.trim() || (isDryRun ? LOOKING : undefined);
  if (reason === undefined) throw new Misuse("--reason is missing: give the reason; the audit keeps it.");
  if (IS_PLACE.test(reason)) throw new Misuse(`--reason ${reason} is a placeholder: give the reason; the audit keeps it.`);
  return reason;
}
