import type { Accepted, Checked, Instance, InstanceDetail, Letter } from "./api.ts";
import type { Asked, Option } from "./arguments.ts";
import { correctLetter, type Replayed, sayLetter, sayReplayed } from "./dead-letters.ts";
import { sayAccepted, sayChecked } from "./enqueue.ts";
import { sayInstance, whyOf } from "./instance-words.ts";
import type { Shown } from "./list.ts";
import { sayJson } from "./words.ts";

/** The options and texts that a CLI command adds to the API operation that it calls. */
interface Comfort extends Shown {
  readonly options?: Readonly<Record<string, Option>>;
  /** The status of the instance after the action. The option `--wait` exists only for an action that has this field. */
  readonly ends?: Instance["status"];
  /** The operation that `--dry-run` calls instead, if the operation has no dry run. */
  readonly checkedBy?: string;
  /** True for a POST that may be repeated: a repeat has no second effect. */
  readonly isSafe?: true;
  /** Changes the request body before it is sent. */
  readonly correct?: (body: Record<string, unknown>, asked: Asked, ids: readonly string[]) => Promise<void>;
  /** Prints the answer of the operation. */
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
