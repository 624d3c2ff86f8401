import type { Item } from "../../data/api.ts";
import { useCause } from "../../data/use-data.ts";
import { hrefOf } from "../../frame/router.tsx";
import { messageOf } from "../../parts/cause.tsx";
import { begun, inWords, shortId } from "../../parts/text.tsx";

export type Bulk = Item<"/v1/bulk-actions">;
export type Action = Item<"/v1/audit">;

const INSTANCES = ["instance", "instances"] as const;
const LETTERS = ["dead letter", "dead letters"] as const;
const DOUBTS = ["unknown outcome", "unknown outcomes"] as const;

/** The items of the engine's bulk actions, by the verb. The items of an app's own verbs are called "items". */
const NOUNS: Readonly<Record<string, readonly [one: string, many: string]>> = {
  ...{ retry: INSTANCES, cancel: INSTANCES, pause: INSTANCES, resume: INSTANCES, close: INSTANCES, run_again: INSTANCES },
  ...{ replay: LETTERS, skip: LETTERS, reject: DOUBTS, retry_anyway: DOUBTS, redeliver: ["delivery", "deliveries"] },
};

export function titleOf(verb: string, things: string): string {
  if (verb === "run_again") return `Run ${things} again`;
  return verb === "retry_anyway" ? `Retry ${things} anyway` : `${begun(verb)} ${things}`;
}

export function counted(verb: string, count: number): string {
  const [one, many] = nounOf(verb);
  return `${count} ${count === 1 ? one : many}`;
}

export const nounOf = (verb: string) => NOUNS[verb] ?? ["item", "items"];

export const RESULTS = { done: "done", skipped: "not needed", failed: "failed" } as const;

/** The screen of an item, or of the instance of an effect. Undefined if the item has no screen. */
export function targetOf(
  verb: string,
  { target, instance_id: instance }: { target: string; instance_id: string | null },
): string | undefined {
  const [one] = nounOf(verb);
  if (instance !== null) return hrefOf("instances", instance);
  return one === "instance" ? hrefOf("instances", target) : one === "dead letter" ? hrefOf("dead-letters", target) : undefined;
}

export function shortened(text: string): string {
  return /^[0-9a-f-]{20,}$/.test(text) ? shortId(text) : text;
}

export function scopeOf(filter: Readonly<Record<string, unknown>> | null): string {
  if (filter === null) return "the selected ones";
  const parts = Object.entries(filter).map(([name, value]) => `${inWords(name)} ${shortened(String(value))}`);
  return parts.length > 0 ? parts.join(" · ") : "all";
}

export function textOf(value: unknown): string {
  return typeof value === "string" ? value : value === undefined ? "nothing" : JSON.stringify(value);
}

const PARTS = ["done", "skipped", "failed"] as const;

export function Bar({ bulk }: { bulk: Bulk }) {
  let x = 0;
  return (
    <svg class="actions-bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={summaryOf(bulk)}>
      {PARTS.map((part) => {
        const width = (bulk[part] / Math.max(bulk.matched, 1)) * 100;
        x += width;
        return width > 0 && <rect key={part} class={part} x={x - width} y="0" width={width} height="8" />;
      })}
    </svg>
  );
}

function summaryOf({ verb, matched, done, skipped, failed, remaining }: Bulk): string {
  return `Of ${counted(verb, matched)}: ${done} done, ${skipped} not needed, ${failed} failed, ${remaining} to do`;
}

/** A bulk action's filter as text. A cause of failures is shown by its message, if the message is known. */
export function Scope({ verb, filter }: { verb: string; filter: Bulk["filter"] }) {
  const { cause, ...others } = filter ?? {};
  const said = useCauseOf(verb, typeof cause === "string" ? cause : "");
  const rest = scopeOf(filter && (said ? others : filter));
  return (
    <bdi>
      {said && <strong>{said}</strong>}
      {said && Object.keys(others).length > 0 && " · "}
      {(!said || Object.keys(others).length > 0) && rest}
    </bdi>
  );
}

function useCauseOf(verb: string, id: string): string | undefined {
  const isOfLetters = nounOf(verb)[0] === "dead letter";
  const letters = useCause("/v1/dead-letters/causes", isOfLetters ? id : "");
  const failures = useCause("/v1/instances/causes", isOfLetters ? "" : id);
  if (letters) return `${letters.queue}, ${inWords(letters.reason)}: ${letters.message}`;
  return failures && `${failures.workflow}, ${messageOf(failures)}`;
}
