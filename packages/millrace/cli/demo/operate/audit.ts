import { Refusal } from "../../command.ts";
import { paint, say } from "../../terminal.ts";
import type { AuditRow, OperateApi } from "./api.ts";
import { FAILED, STRAY } from "./orders.ts";

/** What an operator did, as it is said of its target. */
const SAID: Record<string, (target: string) => string> = {
  retry: (target) => `retried ${target}`,
  bulk: () => "began a bulk action of all that had failed of that cause",
  skip: (target) => `gave up ${target}`,
  cancel: (target) => `cancelled ${target}`,
  confirm: (target) => `confirmed what ${target} was in doubt of`,
  replay: (target) => `replayed the message of ${target}, corrected`,
};

/** Reads out who did what, why, and what that changed: what a bulk action did to each as one sentence. */
export async function readAudit(api: OperateApi): Promise<void> {
  const [rows, instances] = await Promise.all([api.audit(), api.all()]);
  const subjects = new Map(instances.map(({ id, subject }) => [id, subject]));
  const nameOf = ({ instance_id }: AuditRow) => subjects.get(instance_id ?? "") ?? "";
  const alone = rows.filter(({ detail }) => !detail?.bulk);
  for (const row of alone) {
    say(`  ${sentence(row, nameOf(row))}`);
    const each = rows.filter(({ detail }) => detail?.bulk === row.target);
    if (each[0])
      say(
        `           ${sentence(each[0], `${each.length} ${each[0].verb === "skip" ? "messages" : "orders"} by it, a row each`).slice(TIME)}`,
      );
  }
  const wrong = auditDiffers(rows);
  if (wrong.length > 0) throw new Refusal(wrong.join(" "));
  say(`  ${paint("green", "✓")} ${rows.length} rows: every action has one, and no dry run.`);
}

/** How much of a sentence is its time, with the space behind it. */
const TIME = "12:00:00 ".length;

/** A row of the audit in words. `target` is what it was about, by its business name. */
export function sentence({ at, actor, verb, reason, before, after }: AuditRow, target: string): string {
  const what = SAID[verb]?.(target) ?? `${verb} ${target}`;
  const moved = Object.keys(after ?? {})
    .filter((name) => name !== "run")
    .map((name) => `${name} ${before?.[name] ?? "none"} → ${after?.[name]}`);
  return `${at.slice(11, 19)} ${actor} ${what}${moved.length > 0 ? `: ${moved.join(", ")}` : ""}. “${reason}”`;
}

/** How the audit differs from what was done, each as a sentence. */
export function auditDiffers(rows: readonly AuditRow[]): string[] {
  const bulks = rows.flatMap(({ verb, target }) => (verb === "bulk" ? [target] : []));
  const expected = {
    "retry alone": 1,
    "bulk alone": 2,
    "retry in bulk": FAILED.length - 1,
    "skip in bulk": STRAY.keys.length,
    "cancel alone": 1,
    "confirm alone": 1,
    "replay alone": 1,
  };
  const found = Map.groupBy(rows, ({ verb, detail }) => `${verb} ${detail?.bulk ? "in bulk" : "alone"}`);
  const kinds = new Set([...Object.keys(expected), ...found.keys()]);
  const counts = [...kinds].map((kind) => ({
    kind,
    has: found.get(kind)?.length ?? 0,
    wants: expected[kind as keyof typeof expected] ?? 0,
  }));
  const strangers = rows.filter(({ detail }) => detail?.bulk !== undefined && !bulks.includes(String(detail.bulk)));
  const untold = rows.filter(({ verb, before, after, result }) => result !== "applied" || (verb !== "bulk" && (!before || !after)));
  return [
    ...counts
      .filter(({ has, wants }) => has !== wants)
      .map(({ kind, has, wants }) => `The audit has ${has} of “${kind}” instead of ${wants}.`),
    ...(strangers.length === 0 ? [] : [`Rows of another bulk action: ${strangers.length}.`]),
    ...(untold.length === 0 ? [] : [`Of ${untold.map(({ verb }) => verb).join(", ")} the audit does not say what it changed.`]),
  ];
}
