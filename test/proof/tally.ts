import { ledgerOf } from "./judge.ts";
import { STRANGER } from "./senders.ts";
import type { Stage, Subject } from "./stage.ts";

/** The result of a run, in numbers. */
export interface Tally {
  /** Accepted commands: its own, another tenant's, and those that followed from events. */
  commands: number;
  /** Effects that may happen once only: in the upstream's ledger, and rows of commits. */
  effects: number;
  /** Operators' accepted requests, by the audit's verbs. */
  actions: Readonly<Record<string, number>>;
}

/** Counts the result of a run. */
export async function tallyOf(stage: Stage, { id, name }: Subject): Promise<Tally> {
  const foreign = await stage.everywhere<{ commits: number }>(
    `SELECT (SELECT count(*) FROM probe_rows WHERE kind = 'commit' AND name = ?3) AS commits
     FROM millrace_instances WHERE tenant_id = ?1 AND subject = ?2`,
    STRANGER,
    `${name}~`,
    `${name}~/r`,
  );
  const [kept] = await stage.rows<{ commands: number; commits: number }>(
    `SELECT (SELECT count(*) FROM millrace_instances f JOIN millrace_instances i ON f.tenant_id = i.tenant_id AND f.correlation_id = i.correlation_id WHERE i.id = ?1) AS commands,
       (SELECT count(*) FROM probe_rows WHERE kind = 'commit' AND name LIKE ?2) AS commits`,
    id,
    `${name}/%`,
  );
  const acts = (await ledgerOf(stage, name)).filter(({ kind }) => kind !== "natural").length;
  const actions = await stage.rows<{ verb: string; n: number }>(
    "SELECT verb, count(*) AS n FROM millrace_actions WHERE instance_id = ?1 AND result = 'applied' GROUP BY verb",
    id,
  );
  return {
    commands: (kept?.commands ?? 0) + foreign.length,
    effects: foreign.reduce((sum, { commits }) => sum + commits, acts + (kept?.commits ?? 0)),
    actions: Object.fromEntries(actions.map(({ verb, n }) => [verb, n])),
  };
}
