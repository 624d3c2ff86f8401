import type { Item } from "../../data/api.ts";
import { useCause } from "../../data/use-data.ts";
import { hrefOf } from "../../frame/router.tsx";
import { shortId } from "../../parts/text.tsx";

export type Bulk = Item<"/v1/bulk-actions">;
export type Action = Item<"/v1/audit">;

/** The nouns for the items of the engine's bulk actions, by verb. The items of an app's bulk action are called "things". */
const NOUNS: Readonly<Record<string, readonly [one: string, many: string]>> = {
  ...Object.fromEntries(["retry", "cancel", "pause", "resume", "close", "run_again"].map((verb) => [verb, ["instance", "instances"]])),
  ...Object.fromEntries(["replay", "skip"].map((verb) => [verb, ["dead letter", "dead letters"]])),
  ...Object.fromEntries(["reject", "retry_anyway"].map((verb) => [verb, ["unknown outcome", "unknown outcomes"]])),
  redeliver: ["delivery", "deliveries"],
};

export function titleOf(verb: string, things: string): string {
  if (verb === "run_again") return `Run ${things} again`;
  return verb === "retry_anyway" ? `Retry ${things} anyway` : `${begun(verb)} ${things}`;
}

const CHOICES: Readonly<Record<string, string>> = { reject: "they did not happen: run them", retry_anyway: "unknown: run them again" };

export const choiceOf = (verb: string) => CHOICES[verb] ?? verb.replaceAll("_", " ");

/** Verbs of actions that undo effects, unless the option `undo` is false. */
export const TAKES_BACK: ReadonlySet<string> = new Set(["cancel"]);

export function begun(verb: string): string {
  const words = verb.replaceAll("_", " ");
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}

export function counted(verb: string, count: number): string {
  const [one, many] = NOUNS[verb] ?? ["item", "items"];
  return `${count} ${count === 1 ? one : many}`;
}

export function nounOf(verb: string): readonly [one: string, many: string] {
  return NOUNS[verb] ?? ["item", "items"];
}

const DONE: Readonly<Record<string, string>> = {
  ...{ retry: "retried", replay: "replayed", cancel: "cancelled", pause: "paused", resume: "resumed" },
  ...{ close: "closed", skip: "skipped", redeliver: "delivered", reject: "rejected", retry_anyway: "run again", run_again: "run again" },
};

/**
 * The label for the result of an item. For some verbs, `done` also includes items whose outcome is not known until the settle time has
 * passed.
 */
export function resultOf(verb: string, result: string): string {
  return result === "done" ? (DONE[verb] ?? "done") : result === "skipped" ? "not needed" : result;
}

export function meaningOf(verb: string): string {
  const isSeen = ["retry", "replay", "cancel", "redeliver", "reject", "retry_anyway", "run_again"].includes(verb);
  const seen = isSeen ? `${begun(resultOf(verb, "done"))}: completed, or not failed by the end of its stage. ` : "";
  const doubt = isSeen && verb !== "redeliver" ? ", or its outcome is unknown and needs an operator" : "";
  return `${seen}Not needed: nothing was left to do; the row names an earlier action, if any. Failed: refused${isSeen ? ", or failed afterwards" : ""}${doubt}.`;
}

/**
 * The URL of the screen for an item of a bulk action. For an effect, the URL of the screen of the effect's instance. Undefined if the item
 * has no screen.
 */
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
  const parts = Object.entries(filter).map(([name, value]) => `${name.replaceAll("_", " ")} ${shortened(String(value))}`);
  return parts.length > 0 ? parts.join(" · ") : "all";
}

/** Describes a bulk action's filter like `scopeOf`, but without the message of the cause. */
export function briefScope(filter: Readonly<Record<string, unknown>> | null): string {
  if (filter?.cause === undefined) return scopeOf(filter);
  const { cause, ...others } = filter;
  return Object.keys(others).length > 0 ? `${scopeOf(others)} · one cause` : "one cause";
}

/** The URL of the list of items that currently match the filter. Undefined if no list supports the filter. */
export function listOf({ verb, filter }: Pick<Bulk, "verb" | "filter">): string | undefined {
  if (filter === null || "until" in filter) return undefined;
  const texts = Object.fromEntries(Object.entries(filter).map(([name, value]) => [name, String(value)]));
  const [one] = nounOf(verb);
  if (one === "instance") return hrefOf("instances", texts);
  if (one !== "dead letter" || "since" in filter) return undefined;
  const { message_type: type, ...rest } = texts;
  return hrefOf("dead-letters", { ...rest, type, each: "true" });
}

export function textOf(value: unknown): string {
  return typeof value === "string" ? value : value === undefined ? "nothing" : JSON.stringify(value);
}

const PARTS = ["done", "skipped", "failed"] as const;

export function Bar({ bulk }: { bulk: Bulk }) {
  let x = 0;
  return (
    <svg class="actions-bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={inWords(bulk)}>
      {PARTS.map((part) => {
        const width = (bulk[part] / Math.max(bulk.matched, 1)) * 100;
        x += width;
        return width > 0 && <rect key={part} class={part} x={x - width} y="0" width={width} height="8" />;
      })}
    </svg>
  );
}

function inWords({ verb, matched, done, skipped, failed, left }: Bulk): string {
  return `Of ${counted(verb, matched)}: ${done} ${resultOf(verb, "done")}, ${skipped} not needed, ${failed} failed, ${left} to do`;
}

/**
 * Shows a bulk action's filter as text. For a cause of failures, the text contains the cause's message, or the cause's id if the message is
 * unknown.
 */
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
  if (letters) return `${letters.queue}, ${letters.reason.replaceAll("_", " ")}: ${letters.message}`;
  return failures && `${failures.workflow}, ${failures.step ?? failures.code}: ${failures.message}`;
}
