import { MillraceError, upstreamRefused } from "millrace";
import { expect, it } from "vitest";
import { acceptCommands } from "../../../../packages/millrace/src/intake/accept/enqueue.ts";
import { type LabCall, labs } from "../../../probe/lab.ts";
import { app } from "../../../probe/worker.ts";
import { fresh, probeEnv, reaches, rows } from "../../harness.ts";
import { scene } from "../scene.ts";
import { auditOf, failedRuns, lettersOfThreeCauses, theOperator } from "./bulk.ts";

interface Causes {
  items: { id: string; count: number; message: string }[];
}

/** Runs of a tenant that wait for the answer to a question. */
async function waitingRuns(tenantId: string, count: number, first = async (_: LabCall): Promise<unknown> => null): Promise<string[]> {
  const names = Array.from({ length: count }, () => fresh("lab"));
  for (const name of names)
    labs.set(name, async (call) => {
      await first(call);
      return call.step.approve("ask", { question: "May it?", timeout: "1 hour", otherwise: "reject" });
    });
  const requests = names.map((name) => ({ type: "lab.requested", payload: { name } }));
  const answers = await acceptCommands(probeEnv, app, { tenantId, source: "test" }, requests);
  const ids = answers.flatMap((answer) => (answer instanceof MillraceError ? [] : [answer.instanceId]));
  for (const id of ids) expect(await reaches(id, "waiting")).toBe("waiting");
  return ids;
}

it("a bulk replay of the dead letters of one cause leaves the dead letters of two other causes unchanged", async () => {
  const { tenantId, ask, start, over } = await theOperator();
  const { name, mend } = await lettersOfThreeCauses(tenantId, [15, 10, 5]);
  const causes = async () => (await ask<Causes>("/v1/dead-letters/causes")).body.items;
  const counts = async () => (await causes()).map(({ count }) => count).toSorted((a, b) => a - b);
  const items = await causes();
  expect(await counts()).toEqual([5, 10, 15]);
  const down = items.find(({ count }) => count === 15);
  mend();
  const { body } = await start({ verb: "replay", filter: { cause: down?.id } });
  expect(await over(body.id)).toMatchObject({ state: "complete", matched: 15, done: 15, failed: 0 });
  expect(await rows("SELECT id FROM probe_rows WHERE name = ?1", name)).toHaveLength(15);
  expect(await counts()).toEqual([5, 10]);
  const { body: none } = await start({ verb: "skip", filter: { cause: down?.id } });
  expect(none).toMatchObject({ state: "complete", matched: 0 });
});

it("a bulk cancel of waiting instances audits each, leaves other tenants unchanged, requires a status and refuses a filter by cause", async () => {
  const [operator, other] = [await theOperator(), await theOperator()];
  const own = await waitingRuns(operator.tenantId, 4);
  const [foreign = ""] = await waitingRuns(other.tenantId, 1);
  for (const filter of [{}, { status: "waiting", cause: "c" }, { status: "complete" }]) {
    expect(await operator.start({ verb: "cancel", filter })).toMatchObject({ status: 422, body: { code: "invalid_payload" } });
  }
  const { body } = await operator.start({ verb: "cancel", filter: { status: "waiting", workflow: "lab" }, ramp: [1] });
  expect(await operator.over(body.id)).toMatchObject({ state: "complete", matched: 4, done: 4, failed: 0 });
  for (const id of own) expect(await reaches(id, "terminated")).toBe("terminated");
  expect((await auditOf(body.id)).map(({ verb, result }) => [verb, result])).toEqual(own.map(() => ["cancel", "applied"]));
  expect(await reaches(foreign, "waiting", "terminated")).toBe("waiting");
  // The repeated bulk action finds no matching instance.
  const again = await operator.start({ verb: "cancel", ids: own, ramp: [] });
  expect(await operator.over(again.body.id)).toMatchObject({ state: "complete", skipped: 4, failed: 0 });
});

it("a bulk cancel without undo keeps the effects; its dry run, its page and its audit records report that", async () => {
  const operator = await theOperator();
  const its = scene();
  const own = await waitingRuns(operator.tenantId, 3, ({ step }) => its.act(step, "a"));
  const asked = { verb: "cancel", filter: { status: "waiting", workflow: "lab" }, ramp: [1], reason: "the supplier left" };
  const dry = async (more: object) =>
    (await operator.ask<{ consequence: string }>("/v1/bulk-actions", { ...asked, ...more, dry_run: true })).body.consequence;
  expect([await dry({}), await dry({ undo: true })]).toEqual(Array(2).fill(expect.stringContaining("Their effects are undone")));
  expect(await dry({ undo: false })).toContain("The instances are terminated and their effects remain");
  const key = { "idempotency-key": "once" };
  const { body } = await operator.start({ ...asked, undo: false }, key);
  expect(body).toMatchObject({ undo: false, matched: 3 });
  // A request with undo under the same key is refused as another request.
  expect(await operator.start(asked, key)).toMatchObject({ status: 422, body: { code: "idempotency_key_reused" } });
  expect(await operator.over(body.id)).toMatchObject({ state: "complete", undo: false, done: 3, failed: 0 });
  for (const id of own) expect(await reaches(id, "terminated")).toBe("terminated");
  expect(its.log).toEqual(["a", "a", "a"]);
  const audit = await rows<{ verb: string; undo: number }>(
    "SELECT verb, detail->>'undo' AS undo FROM millrace_actions WHERE tenant_id = ?1 AND (target = ?2 OR detail->>'bulk' = ?2)",
    operator.tenantId,
    body.id,
  );
  expect(audit.toSorted((a, b) => a.verb.localeCompare(b.verb))).toEqual(
    ["bulk", "cancel", "cancel", "cancel"].map((verb) => ({ verb, undo: 0 })),
  );
  // A bulk cancel undoes by default and reports that; the dry run of a verb without undo does not mention it.
  expect((await operator.start({ ...asked, filter: { status: "paused" } })).body).toMatchObject({ undo: true });
  expect((await operator.start({ verb: "pause", filter: { status: "waiting" } })).body).toMatchObject({ undo: null });
});

it("a bulk pause, a bulk resume and a bulk close of the instances with one cause succeed", async () => {
  const operator = await theOperator();
  const own = await waitingRuns(operator.tenantId, 2);
  const all = async (verb: string, filter: object) => operator.over((await operator.start({ verb, filter, ramp: [] })).body.id);
  expect(await all("pause", { status: "waiting", workflow: "lab" })).toMatchObject({ matched: 2, done: 2 });
  for (const id of own) expect(await reaches(id, "paused")).toBe("paused");
  expect(await all("resume", { workflow: "lab" })).toMatchObject({ matched: 2, done: 2 });
  for (const id of own) expect(await reaches(id, "waiting", "running")).not.toBe("paused");
  let first = "";
  const failed = await failedRuns(operator.tenantId, 3, ({ step, payload: { name } }: LabCall) => {
    first ||= name;
    const why = upstreamRefused(name === first ? "One item does not exist." : "The upstream is unavailable.");
    return step.commit("work", () => Promise.reject(why), { retries: { limit: 0, delay: 10 } });
  });
  const { items } = (await operator.ask<Causes>("/v1/instances/causes")).body;
  const one = items.find(({ message }) => message.startsWith("One"));
  expect(await all("close", { cause: one?.id })).toMatchObject({ matched: 1, done: 1 });
  const ends = await Promise.all(failed.map((id) => reaches(id, "skipped", "errored")));
  expect(ends.toSorted()).toEqual(["errored", "errored", "skipped"]);
});
