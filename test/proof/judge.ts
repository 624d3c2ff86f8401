// Checks the result from the upstream's ledger and from plain SQL, without the engine's own functions.
import type { LedgerEntry } from "../upstream/server.ts";
import { misordered, type Verdict, wrongWith } from "./account.ts";
import { takenBack } from "./journal.ts";
import { type Effect, effectsOf } from "./model.ts";
import { BY_HAND } from "./orders.ts";
import type { Asked } from "./requests.ts";
import { operator, type Stage, type Standing, type Subject } from "./stage.ts";

/** A run's status, and its waits: events, answers, and the true outcome of effects with unknown outcomes. */
export interface Row {
  status: string;
  error: string | null;
  waits: number;
  questions: number;
  doubts: number;
}

export const rowOf = async ({ rows }: Stage, id: string): Promise<Row | undefined> =>
  (
    await rows<Row>(
      `SELECT status, error,
         (SELECT count(*) FROM millrace_waits WHERE instance_id = ?1 AND signal_id IS NULL AND over_at IS NULL) AS waits,
         (SELECT count(*) FROM millrace_approvals WHERE instance_id = ?1 AND state = 'pending') AS questions,
         (SELECT count(*) FROM millrace_inbox WHERE instance_id = ?1 AND state = 'in_doubt') AS doubts
       FROM millrace_instances WHERE id = ?1`,
      id,
    )
  )[0];

/** Accepted requests of operators, counted. */
async function applied({ rows }: Stage, verb: "undo" | "retry_anyway", id: string): Promise<number> {
  return (await rows("SELECT id FROM millrace_actions WHERE instance_id = ?1 AND verb = ?2 AND result = 'applied'", id, verb)).length;
}

/** The number of a run's undos, including a running one. */
export const undosOf = (stage: Stage, id: string): Promise<number> => applied(stage, "undo", id);

/** A run's status and output on the platform. The query is repeated once if it gets no response, which says nothing about the run. */
export const platformOf = (stage: Stage, id: string): Promise<Standing> =>
  stage
    .platform(id)
    .catch(() => stage.platform(id))
    .catch((error) => ({ status: `unknown (${error})` }));

/** The upstream's effects for a run, in order. */
export async function ledgerOf({ upstreamUrl }: Stage, name: string): Promise<LedgerEntry[]> {
  const all = (await (await fetch(`${upstreamUrl}/ledger/${encodeURIComponent(`${name}/`)}`)).json()) as LedgerEntry[];
  return all.map((one) => ({ ...one, subject: one.subject.slice(name.length + 1) }));
}

const UNDER_WAY: ReadonlySet<string> = new Set(["queued", "running", "waiting", "paused", "waitingForPause"]);

/**
 * True if the run has no open item: no unsent message, no promised action, no effect without outcome; its follow-ups have ended, and the
 * platform has the same status.
 */
export async function openOf(stage: Stage, { id, name }: Subject, ended: Verdict["ended"]): Promise<string[]> {
  const [open] = await stage.rows<Record<string, number>>(
    `SELECT (SELECT count(*) FROM millrace_outbox WHERE body LIKE ?2) AS messages,
       (SELECT count(*) FROM millrace_actions WHERE instance_id = ?1 AND applied_at IS NULL) AS promises,
       (SELECT count(*) FROM millrace_inbox WHERE instance_id = ?1
          AND (state = 'in_doubt' OR (state = 'claimed' AND lease_until > unixepoch('subsec') * 1000))) AS effects,
       (SELECT count(*) FROM millrace_instances f JOIN millrace_instances i ON f.tenant_id = i.tenant_id AND f.correlation_id = i.correlation_id
          WHERE i.id = ?1 AND f.id <> ?1 AND f.status <> 'complete') AS followers`,
    id,
    `%${name}%`,
  );
  const found = Object.entries(open ?? {}).flatMap(([what, count]) => (count > 0 ? [`${count} ${what} open`] : []));
  if (found.length > 0) return found;
  // I17: an undo is a separate run on the platform, with any end.
  const { status } = await platformOf(stage, id);
  const agrees = ended === "complete" ? status === "complete" : !UNDER_WAY.has(status);
  return agrees ? [] : [`the platform's status is ${status}`];
}

/**
 * I11: each operator's request is audited once, as applied or as refused, with actor and reason, and no other request is. A repeated
 * signal is audited without a change.
 */
export async function wrongInAudit({ rows, repeats }: Stage, { id }: Subject, asked: Asked): Promise<string[]> {
  const found = await rows<{ verb: string; actor: string; reason: string; result: string }>(
    "SELECT verb, actor, reason, result FROM millrace_actions WHERE instance_id = ?1",
    id,
  );
  const unsigned = found.filter(({ actor, reason }) => actor !== operator.actor || reason === "");
  const counted = Object.entries(asked).flatMap(([verb, one]) => {
    const own = found.filter((row) => row.verb === verb);
    const applied = own.filter(({ result }) => result === "applied").length;
    const isShort = own.length < one.done + one.refused || (verb !== "signal" && applied < one.done);
    return isShort || (own.length > one.asked && !repeats)
      ? [`${own.length} actions "${verb}", ${applied} of them applied; asked ${one.asked} times, ${one.done} done, ${one.refused} refused`]
      : [];
  });
  return [...counted, ...unsigned.map((one) => `audited without actor and reason: ${JSON.stringify(one)}`)];
}

/** All records of a run, for the analysis of a hang. */
export async function evidenceOf(stage: Stage, { id, name }: Subject): Promise<string> {
  const { rows } = stage;
  const tables = {
    row: await rows("SELECT * FROM millrace_instances WHERE id = ?1", id),
    inbox: await rows(
      `SELECT step, item, generation, class, state, position, token, after, caught, error, began_at, ended_at, updated_at
       FROM millrace_inbox WHERE instance_id = ?1 ORDER BY position`,
      id,
    ),
    waits: await rows("SELECT name, subject, signal_id, over_at, told_at FROM millrace_waits WHERE instance_id = ?1", id),
    questions: await rows("SELECT step, state, due_at FROM millrace_approvals WHERE instance_id = ?1", id),
    outbox: await rows("SELECT queue, attempts, error, body->>'message_type' AS type FROM millrace_outbox WHERE body LIKE ?1", `%${name}%`),
    actions: await rows("SELECT verb, result, at, applied_at, attempts, error FROM millrace_actions WHERE instance_id = ?1", id),
    journal: await rows("SELECT at_ms, what, was, is_now, epoch FROM proof_journal WHERE instance_id = ?1 ORDER BY at", id),
    followers: await rows(
      "SELECT workflow, subject, status FROM millrace_instances WHERE subject LIKE ?1 AND status <> 'complete'",
      `${name}/%`,
    ),
    platform: [await platformOf(stage, id)],
  };
  return Object.entries(tables)
    .flatMap(([table, found]) => found.map((one) => `\n    ${table} ${JSON.stringify(one)}`))
    .join("");
}

/** The problems of the result. */
export async function judge(stage: Stage, run: Subject, verdict: Verdict): Promise<string[]> {
  const [ledger, undos, cancels, again, kept, letters, instances] = await Promise.all([
    ledgerOf(stage, run.name),
    undosOf(stage, run.id),
    stage.rows(
      "SELECT id FROM millrace_actions WHERE instance_id = ?1 AND verb = 'cancel' AND result = 'applied' AND detail->>'undo'",
      run.id,
    ),
    applied(stage, "retry_anyway", run.id),
    stage.rows<{ kind: string; name: string; n: number }>(
      "SELECT kind, name, count(*) AS n FROM probe_rows WHERE name LIKE ?1 GROUP BY kind, name",
      `${run.name}/%`,
    ),
    stage.everywhere<{ reason: string }>("SELECT reason FROM millrace_dead_letters WHERE body LIKE ?1", `%${run.name}%`),
    stage.rows("SELECT id FROM millrace_instances WHERE subject = ?1", run.name),
  ]);
  const count = (kind: string, at: string) => kept.find((one) => one.kind === kind && one.name === `${run.name}/${at}`)?.n ?? 0;
  const known = new Map<string, Effect>(
    [effectsOf(run.program), ...[...verdict.before, verdict.expected].map(({ effects }) => [...effects.values()])]
      .flat()
      .map((one) => [one.at, one]),
  );
  const problems = [...verdict.expected.problems];
  for (const effect of known.values()) {
    const { at } = effect;
    const done = ledger.filter(({ subject }) => subject === at);
    const happened = effect.class === "commit" ? count("commit", at) : done.length;
    const back = effect.class === "commit" ? count("back", at) : ledger.filter(({ subject }) => subject === `${at}/back`).length;
    if (back !== count("back", at))
      problems.push(`the effect ${at} was undone ${back} times, but recorded as undone ${count("back", at)} times`);
    const unsaid = effect.emits && !effect.stays ? back - count("event", `${at}/back`) : 0;
    if (unsaid !== 0) problems.push(`the effect ${at} was undone ${back} times, but reported as undone ${back - unsaid} times`);
    const told = {
      undos: undos + cancels.length,
      events: count("event", at),
      commands: count("command", at),
      heard: effect.emits ? await stage.heard(`${run.name}/${at}`) : 0,
    };
    problems.push(...wrongWith(effect, { happened, back, again, ...told }, verdict).map((what) => `${effect.class} ${at}: ${what}`));
    const said = verdict.trace.did[at];
    // An undone effect, or an effect repeated on request, had another output.
    const answers = effect.class === "natural" ? done : done.slice(-1);
    if (
      effect.class !== "commit" &&
      said !== undefined &&
      said !== BY_HAND &&
      verdict.ended === "complete" &&
      !answers.some(({ id }) => id === said)
    )
      problems.push(`the code got the output ${said} of ${at}, but the upstream returned ${done.map(({ id }) => id).join(", ")}`);
  }
  const strangers = [...ledger.map(({ subject }) => subject), ...kept.map(({ name }) => name.slice(run.name.length + 1))]
    .map((subject) => subject.replace(/\/back$/, ""))
    .filter((subject) => !known.has(subject));
  if (instances.length !== 1) problems.push(`${instances.length === 0 ? "lost" : "duplicate"}: ${instances.length} instances`);
  if (strangers.length > 0) problems.push(`invented: unrequested: ${strangers.join(", ")}`);
  if (verdict.ended === "terminated" && !verdict.cut) problems.push(...misordered(await takenBack(stage, run.name), verdict.expected));
  const reasons = letters.map(({ reason }) => reason).sort();
  const wanted = [...verdict.letters].sort();
  if (reasons.join() !== wanted.join())
    problems.push(
      `${reasons.length < wanted.length ? "lost" : "invented"}: letters ${reasons.join(", ") || "none"}; not ${wanted.join(", ") || "none"}`,
    );
  return problems;
}
