import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { keeperOf } from "millrace/worker";
import { onTestFinished } from "vitest";
import { IS_FULL_SIZE } from "../../full-size.ts";
import { withAuditOpen } from "../../opened-audit.ts";
import { dieAt, fresh, probeEnv, reaches, rows, start, statusOf } from "../harness.ts";
import { LAB } from "../lab.ts";

/** The number of rows that are due before the row of a test. The gate uses smaller numbers: see vitest.config.ts. */
export const MANY = IS_FULL_SIZE ? { open: 100_000, messages: 100_000, hopeless: 1000 } : { open: 2000, messages: 2000, hopeless: 200 };

export const run = (text: string, ...params: unknown[]) =>
  env.DB.prepare(text)
    .bind(...params)
    .run();

/** Instances of a renamed workflow. The platform cannot be queried about them, and no action on them can be executed. */
export async function open(count: number, workflow: string, like: string): Promise<void> {
  onTestFinished(async () => void (await run("DELETE FROM millrace_instances WHERE workflow = ?1", workflow)));
  await run(
    `INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at, check_at, seen)
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
     SELECT substr(lower(hex(randomblob(16))), 1, 32), tenant_id, ?2, message_type, i, correlation_id, causation_id, ?2, fingerprint, envelope, 'running', 1, 1, i, i % 2
     FROM n, millrace_instances WHERE id = ?3`,
    count,
    workflow,
    like,
  );
}

/** An open action on each instance of a workflow. With a future `dueAt` it waits for `keeperRound`, and the keeper's alarm ignores it. */
export async function promised(workflow: string, dueAt = 1): Promise<void> {
  onTestFinished(async () => void (await withAuditOpen("DELETE FROM millrace_actions WHERE reason = ?1", workflow)));
  await run(
    `INSERT INTO millrace_actions (id, tenant_id, actor, verb, target, instance_id, reason, detail, result, at, due_at)
     SELECT 'a' || id, tenant_id, 'tess', 'retry', id, id, workflow, '{"run":1}', 'applied', ${Date.now() - 60_000}, ${dueAt} FROM millrace_instances WHERE workflow = ?1`,
    workflow,
  );
}

export async function unsent(count: number, queue: string): Promise<void> {
  onTestFinished(async () => void (await run("DELETE FROM millrace_outbox WHERE queue = ?1", queue)));
  await run(
    `INSERT INTO millrace_outbox (id, queue, body, attempts, due_at)
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) SELECT ?2 || i, ?2, '{}', 3, i FROM n`,
    count,
    queue,
  );
}

/** A complete run, whose row is the template for other rows. */
export async function example(): Promise<string> {
  const { instanceId } = await start(fresh(), [{ do: "commit", name: "z" }]);
  await reaches(instanceId, "complete");
  return instanceId;
}

/** A command that was accepted and never sent, because its process died. It is due after all other rows. */
export async function accepted(): Promise<string> {
  const name = fresh();
  dieAt("A03 accept committed, not enqueued");
  await start(name, [{ do: "commit", name: "c" }]).catch(() => undefined);
  const [{ id } = { id: "" }] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
  await run("UPDATE millrace_instances SET check_at = ?2 WHERE id = ?1", id, Date.now() - 1000);
  return id;
}

/**
 * Runs a keeper round with a platform that reports lab runs as sleeping, as the deployed platform does. The local platform reports
 * them as running.
 */
export async function roundOverSleepers(): Promise<void> {
  await runInDurableObject(keeperOf(probeEnv), async (keeper) => {
    const own = keeper as unknown as { env: object };
    const before = own.env;
    const get = async (id: string) => {
      const { status } = await (await LAB.get(id)).status();
      return { status: async () => ({ status: status === "running" ? "waiting" : status }), sendEvent: async () => undefined };
    };
    own.env = { ...before, LAB: { get } };
    try {
      await keeper.round();
    } finally {
      own.env = before;
    }
  });
}

/** The status of an instance, and the seconds from a time to the keeper's next check. */
export async function nextLook(id: string, fromMs = Date.now()): Promise<{ status: string | undefined; seconds: number }> {
  const [{ at } = { at: 0 }] = await rows<{ at: number }>("SELECT check_at AS at FROM millrace_instances WHERE id = ?1", id);
  return { status: await statusOf(id), seconds: Math.round((at - fromMs) / 1000 + 0.2) };
}
