import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { keeperOf } from "millrace/worker";
import { expect, it } from "vitest";
import { callerWith, expectProblem, fresh, reaches } from "./client.ts";

/** A command that was completed 31 days ago, and has been pruned since. */
async function pruned() {
  const caller = await callerWith();
  const keyword = fresh();
  const { body } = await caller.ask(keyword);
  const id: string = body.instance_id;
  await reaches(caller, id, "complete");
  const envelope = await env.DB.prepare("SELECT envelope FROM millrace_instances WHERE id = ?1").bind(id).first<string>("envelope");
  const monthAgo = Date.now() - 31 * 86_400_000;
  const place = await env.DB.prepare(
    "UPDATE millrace_instances SET accepted_at = ?2, updated_at = ?2 WHERE id = ?1 RETURNING rowid - 1 AS before",
  )
    .bind(id, monthAgo)
    .first<number>("before");
  // Rows are in order of arrival, and the keeper's scan ends at a recent row: here the recent row comes before this old one.
  await runInDurableObject(keeperOf(env), async (_, { storage }) => {
    const turns = await storage.get<object>("retention");
    await storage.put("retention", { ...turns, "instances ended": { dueAt: 0, from: String(place) } });
  });
  await keeperOf(env).round();
  expect(await rowOf(id)).toBeNull();
  return { caller, keyword, id, envelope: envelope ?? "" };
}

const rowOf = (id: string) => env.DB.prepare("SELECT status FROM millrace_instances WHERE id = ?1").bind(id).first();

it("A08 a repeat of a command with a pruned instance is answered as replayed, and no instance runs", async () => {
  const { caller, keyword, id } = await pruned();
  const again = await caller.ask(keyword);
  expect(again.status).toBe(202);
  expect(again.body).toMatchObject({ instance_id: id, replayed: true, instance_status: "pruned", due_at: null });
  expect(await rowOf(id)).toBeNull();
  expectProblem(await caller.get(`/v1/instances/${id}`), 404, "instance_not_found");
});

it("the replay of a dead letter of a pruned instance has no effect, and the response has the reason", async () => {
  const { caller, id, envelope } = await pruned();
  const letter = fresh("letter");
  await env.DB.prepare(
    `INSERT INTO millrace_dead_letters (id, tenant_id, queue, instance_id, body, reason, attempts, first_at, captured_at) VALUES (?1, ?2, 'gatherfeed-commands', ?3, ?4, 'exhausted', 4, 0, ?5)`,
  )
    .bind(letter, caller.tenantId, id, envelope, Date.now())
    .run();
  const { status, body } = await caller.post(`/v1/dead-letters/${letter}/replay`, { reason: "late" });
  expect(status).toBe(200);
  expect(body).toMatchObject({ sent: false, why: expect.stringContaining("already pruned") });
  expect(await rowOf(id)).toBeNull();
});
