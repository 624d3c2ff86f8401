import { oneLine, say } from "../terminal.ts";
import type { Accepted, Checked } from "./api.ts";
import { moment, tell } from "./words.ts";

/** Prints the id of an accepted command's instance on stdout, and everything else on stderr. */
export function sayAccepted({ instance_id: id, replayed, instance_status: status, due_at }: Accepted): void {
  const due = due_at ? ` It is due ${moment(due_at)}.` : "";
  tell(replayed ? `The command was sent before, so nothing started. Its instance is ${status}.${due}` : `Accepted.${due}`);
  say(id);
}

const OUTCOMES: Readonly<Record<Checked["outcome"], string>> = {
  new: "the key is free: it would start",
  repeat: "it was sent before: a repeat would start nothing",
  reused: "other work has the key: it would be refused",
  refused: "it is not valid",
};

/** Prints the result of a check, which is also the dry run of `enqueue`. */
export function sayChecked({ outcome, key, holder }: Checked): void {
  say(oneLine(`Dry run: ${outcome}: ${OUTCOMES[outcome]}. Its key: ${key}${holder ? `, held by ${holder.id}, ${holder.status}` : ""}.`));
}
