import { oneLine, say } from "../terminal.ts";
import type { Accepted, Checked, Instance, InstanceDetail, Letter } from "./api.ts";
import type { Asked, Option } from "./arguments.ts";
import { correctLetter, type Replayed, sayLetter, sayReplayed } from "./dead-letters.ts";
import { sayInstance, whyOf } from "./instance-words.ts";
import type { Shown } from "./list.ts";
import { moment, sayJson, tell } from "./words.ts";

/** The options and texts that a CLI command adds to the API operation that it calls. */
interface Comfort extends Shown {
  readonly options?: Readonly<Record<string, Option>>;
  /** The status of the instance after the action. Only an action with this field has the option `--wait`. */
  readonly ends?: Instance["status"];
  /** The operation that `--dry-run` calls, if this operation has no dry run. */
  readonly checkedBy?: string;
  /** True for a POST that may be repeated: a repeat has no second effect. */
  readonly isSafe?: true;
  readonly correct?: (body: Record<string, unknown>, asked: Asked, ids: readonly string[]) => Promise<void>;
  readonly says?: (answer: never, asked: Asked) => Promise<void> | void;
}

const QUEUES = "queue depth oldest_seconds lag_seconds in_per_minute out_per_minute retry_share dead_letters_open processing_p99_seconds";

export const COMFORTS: Readonly<Record<string, Comfort>> = {
  ...Object.fromEntries(
    Object.entries({
      instances: ["retry", "resume", "restart", "run-again", "skip", "signal", "release"],
      effects: ["confirm", "reject", "retry"],
      approvals: ["approve", "reject"],
      schedules: ["run"],
    }).flatMap(([noun, verbs]) => verbs.map((verb) => [`${noun} ${verb}`, { ends: "complete" }])),
  ),
  enqueue: {
    options: { "dry-run": { says: "print the result, without sending" } },
    ...{ ends: "complete", checkedBy: "catalog check", isSafe: true },
    says: (accepted: Accepted) => sayAccepted(accepted),
  },
  "catalog check": { isSafe: true, says: (checked: Checked) => sayChecked(checked) },
  "instances cancel": { ends: "terminated" },
  "instances undo": { ends: "terminated" },
  "instances list": { columns: ["id", "status", "workflow", "subject", "accepted_at"], why: (row) => whyOf(row as unknown as Instance) },
  "instances show": { says: (instance: InstanceDetail, asked) => sayInstance(instance, asked) },
  "effects list": { columns: ["key", "state", "step", "class", "updated_at", "input"] },
  "dead-letters list": { none: "No such dead letter is shown to your token. Dead letters without a tenant need the scope unattributed." },
  "dead-letters show": { says: (letter: Letter) => sayLetter(letter) },
  "dead-letters replay": {
    options: { payload: { value: "JSON", says: "replaces the payload of the message; @FILE, -" } },
    correct: correctLetter,
    says: (replayed: Replayed) => sayReplayed(replayed),
  },
  "audit list": { columns: ["at", "actor", "verb", "target", "result", "reason"] },
  "queues list": { columns: QUEUES.split(" ") },
  search: { columns: ["kind", "id", "status", "by", "title"] },
  "openapi show": { says: (document: object) => sayJson(document) },
};

/** Prints the id of an accepted command's instance on stdout, and everything else on stderr. */
function sayAccepted({ instance_id: id, replayed, instance_status: status, due_at }: Accepted): void {
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
function sayChecked({ outcome, key, holder }: Checked): void {
  say(oneLine(`Dry run: ${outcome}: ${OUTCOMES[outcome]}. Its key: ${key}${holder ? `, held by ${holder.id}, ${holder.status}` : ""}.`));
}
