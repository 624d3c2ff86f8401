import type { EngineEnv } from "../../contract/bindings.ts";
import { MillraceError } from "../../contract/errors.ts";
import { beginning } from "../../contract/text.ts";
import type { Operator } from "../../store/actions.ts";
import { namedBatch } from "../../store/d1/named.ts";
import { type PageRequest, type Position, positionOf } from "../../store/d1/paging.ts";
import { type Collapsed, joined, type Startable } from "./joined.ts";
import { instanceMember, letterMember, type Member, selectInstances, selectLetters } from "./members.ts";
import type { JobNode } from "./node.ts";
import { countInstances, countLetters, type JobSummary, summaryOf } from "./summary.ts";

/** A page of a job's graph. Messages, instances and dead letters are the nodes. The edges lead from causes to effects. */
export interface JobPage {
  /** The summary of the job, on the first page only. */
  summary: JobSummary | null;
  /** The nodes of the page, in an order in which causes precede their effects and each instance's messages follow the instance directly. */
  nodes: JobNode[];
  /** For instances that emitted many messages: counts of the messages without a node of their own. */
  collapsed: Collapsed[];
  next: string | null;
}

/**
 * A page of the tenant's members of a job, from causes to effects. The page lists instances in the order of acceptance, each with its
 * emitted messages, then dead letters. The cost of a page does not depend on the size of the job. Errors: `correlation_not_found`.
 */
export async function readJob(
  env: Pick<EngineEnv, "DB">,
  { tenantId }: Operator,
  job: string,
  { workflows, ...request }: PageRequest & { workflows: readonly Startable[] },
): Promise<JobPage> {
  const size = Math.min(request.limit ?? 50, 200);
  const behind = positionOf(request.cursor) ?? FIRST;
  const isFirst = behind === FIRST;
  const found = await namedBatch(env.DB, {
    instances: selectInstances(tenantId, job, behind, size + 1),
    letters: selectLetters(tenantId, job, behind, size + 1),
    statuses: isFirst ? countInstances(tenantId, job) : [],
    states: isFirst ? countLetters(tenantId, job) : [],
  });
  const members = [
    ...found.instances.map((row) => instanceMember(tenantId, row)),
    ...found.letters.map((row) => letterMember(tenantId, row)),
  ].sort(byPosition);
  if (isFirst && members.length === 0) throw unknownJob(job);
  const told = members.slice(0, size);
  const last = told.at(-1)?.position;
  return {
    summary: isFirst ? summaryOf(found.statuses, found.states) : null,
    ...(await joined(env, tenantId, told, workflows)),
    next: members.length > size && last ? `${last.at}.${last.id}` : null,
  };
}

const FIRST: Position = { at: 0, id: "" };

function byPosition({ position: a }: Member, { position: b }: Member): number {
  return a.at - b.at || (a.id < b.id ? -1 : 1);
}

function unknownJob(job: string): MillraceError {
  const said = `There is no job ${beginning(job, 64)}: no record has this correlation id, or its records are pruned. Search with GET /v1/search.`;
  return new MillraceError("correlation_not_found", said);
}
