import { erasure } from "millrace/operate";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { callerWith, expectProblem, type Json } from "../../api/client.ts";
import { ProbeSignal } from "../../probe/messages.ts";
import { dieAt, fresh, happened, probeEnv, reaches, start, statusOf } from "../harness.ts";
import { ada, REDACTED, reader } from "../inspect/told.ts";
import { platformOf, platformReaches, runLab } from "../lab.ts";
import { age, archive, archiveEnv, count, DAY_MS, ENGINE_RETENTION, justBefore, rowOf, run } from "./aged.ts";

const objects = async (tenant = "acme") =>
  (await probeEnv.PAYLOADS.list({ prefix: `runs/${tenant}/` })).objects.map(({ key }) => key).sort();

/** Rows that belong to an instance, by table. */
const rowsOf = async (id: string) => ({
  instances: await count("millrace_instances", "id = ?1", id),
  entries: await count("millrace_inbox", "instance_id = ?1", id),
  waits: await count("millrace_waits", "instance_id = ?1", id),
  approvals: await count("millrace_approvals", "instance_id = ?1", id),
  notes: await count("millrace_tenant_objects", "binding = 'ARCHIVE'"),
  tombstones: await count("millrace_tombstones", "id = unhex(?1)", id),
});
const GONE = { instances: 0, entries: 0, waits: 0, approvals: 0, notes: 0, tombstones: 1 };

// Rows of other files of the same worker would be moved with those of a test.
beforeEach(async () => {
  for (const rule of ["instances ended", "instances failed"]) await archive(rule);
});

/** Runs a lab that has received an event with a secret and was answered by an operator, and ends it. */
async function ended() {
  const [by, person, secret, about] = [await reader(), ada(), fresh("door"), fresh("wait")];
  const { instanceId: id } = await runLab(
    async ({ payload: { person: who }, step }) => {
      const { secret: code } = await step.waitFor("code", ProbeSignal, { subject: about });
      await step.commit("open", () => ({ output: { with: code ?? "", to: who?.email ?? "" } }));
      return 1;
    },
    { person },
  );
  await reaches(id, "waiting");
  const signal = { payload: { about, value: "v", secret }, reason: "Told." };
  await by.post(`/v1/instances/${id}/signals/${ProbeSignal.type}`, signal, { "idempotency-key": about });
  await reaches(id, "complete");
  return { by, id, person, secret };
}

describe("Archived instances", () => {
  it("an archived instance is shown as before, with its steps, effects, messages and record, and as archived", async () => {
    const { by, id } = await ended();
    const read = async () => {
      const paths = ["", "/steps", "/effects", "/events?payload=true", "/record"];
      const all = await Promise.all(paths.map((path) => by.get(`/v1/instances/${id}${path}`)));
      expect(all.map(({ status }) => status)).toEqual(paths.map(() => 200));
      return all.map(({ body }) => body);
    };
    await age(id, 31);
    const before = await read();
    expect(before[0].archived_at).toBeNull();
    expect(await archive()).toBeGreaterThanOrEqual(1);
    expect(await rowsOf(id)).toEqual(GONE);
    const [{ archived_at, ...detail }, ...others] = await read();
    expect(Date.parse(archived_at)).toBeGreaterThan(Date.now() - 60_000);
    const { archived_at: _, ...was } = before[0];
    expect([detail, ...others]).toEqual([was, ...before.slice(1)]);
    expect(detail).toMatchObject({ id, status: "complete", cost: { usd: expect.any(Number) } });
    expect(others[1].items).toHaveLength(1);
  });

  it("sensitive fields of an archived instance and of its event are hidden, and shown with the scope reveal", async () => {
    const { by, id, person, secret } = await ended();
    await age(id, 31);
    await archive();
    await run("DELETE FROM millrace_signals WHERE envelope->>'$.payload_inline.secret' = ?1", secret);
    const { body } = await by.get(`/v1/instances/${id}`);
    expect(body.payload.person).toMatchObject({ email: REDACTED, city: "London" });
    const effects = await by.get(`/v1/instances/${id}/effects`);
    expect(effects.body.items.map(({ output }: Json) => output)).toEqual([{ with: REDACTED, to: REDACTED }]);
    expectProblem(await by.get(`/v1/instances/${id}?reveal=true`), 403, "forbidden");
    const seer = await reader("reveal");
    expect((await seer.get(`/v1/instances/${id}?reveal=true`)).body.payload.person.email).toBe(person.email);
    expect((await seer.get(`/v1/instances/${id}/effects?reveal=true`)).body.items[0].output).toEqual({ with: secret, to: person.email });
  });

  it("an archived instance is found by its id and its key, and by its tenant alone", async () => {
    const name = fresh();
    const { instanceId: id } = await start(name, [{ do: "keyed", name: "charge" }], { idempotencyKey: name });
    await reaches(id, "complete");
    await age(id, 31);
    await archive();
    const [by, stranger] = [await reader(), await callerWith(["read", "operate"])];
    expect((await by.get(`/v1/keys/${name}`)).body.holders).toMatchObject([{ kind: "tombstone", id, status: "archived" }]);
    expect((await by.get(`/v1/search?q=${name}`)).body.items).toMatchObject([{ kind: "key", id, status: "archived" }]);
    const url = `/v1/instances/${id}`;
    expect((await by.get(`/v1/search?q=${id}`)).body.items).toMatchObject([{ kind: "instance", id, status: "complete", url, by: "id" }]);
    for (const path of ["", "/steps", "/effects", "/events", "/record"])
      expectProblem(await stranger.get(`${url}${path}`), 404, "instance_not_found");
    expect((await stranger.get(`/v1/search?q=${id}`)).body.items).toEqual([]);
    const prepare = vi.spyOn(Object.getPrototypeOf(probeEnv.DB) as D1Database, "prepare");
    await by.get("/v1/search?q=no-such-text");
    expect(prepare.mock.calls.filter(([text]) => text.includes("-place AS object"))).toEqual([]);
    prepare.mockRestore();
    expectProblem(await stranger.post(`${url}/undo`, { reason: "r" }), 404, "instance_not_found");
  });

  it("a repeat of an archived command starts nothing, and another payload is refused", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "keyed", name: "charge" }]);
    await reaches(instanceId, "complete");
    await age(instanceId, 31);
    await archive();
    expect(await start(name, [{ do: "keyed", name: "charge" }])).toMatchObject({ instanceId, replayed: true });
    await expect(start(name, [{ do: "keyed", name: "other" }])).rejects.toMatchObject({ code: "idempotency_key_reused" });
    expect(await statusOf(instanceId)).toBeUndefined();
    expect(await happened(`${name}/charge`)).toHaveLength(1);
  });

  it("failed instances are archived after 90 days, and with their dead letter's row kept by its own rule", async () => {
    const [old, young] = [await rowOf("errored", 91), await rowOf("errored", 89)];
    expect(await archive("instances failed")).toBe(1);
    expect((await (await reader()).get(`/v1/instances/${old}`)).body).toMatchObject({ status: "errored" });
    expect(await statusOf(young)).toBe("errored");
    await run("DELETE FROM millrace_instances WHERE id = ?1", young);
  });

  it("the outputs of an archived instance remain in R2, and its object is removed with the tombstone after 400 days", async () => {
    const id = await rowOf("complete", 31);
    const path = `outputs/acme/${id}/x`;
    await probeEnv.PAYLOADS.put(path, "1");
    await archive();
    const prune = (name: string, keepMs: number) => ENGINE_RETENTION.find((one) => one.name === name)?.prune(archiveEnv(30), keepMs, null);
    await prune("payloads and outputs", -1000);
    expect(await probeEnv.PAYLOADS.head(path)).not.toBeNull();
    expect(await objects()).not.toEqual([]);
    await prune("archived instances", 400 * DAY_MS);
    expect((await (await reader()).get(`/v1/instances/${id}`)).status).toBe(200);
    await prune("archived instances", -60_000);
    expect(await objects()).toEqual([]);
    expectProblem(await (await reader()).get(`/v1/instances/${id}`), 404, "instance_not_found");
  });

  it("one slice moves at most 250 instances of 20 tenants, and the next slice continues with the others", async () => {
    const mark = fresh("many")
      .toLowerCase()
      .replaceAll(/[^a-z0-9]/g, "");
    await run(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
       INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)
       SELECT printf('a%031d', i), ?1 || (i % 30), 'probe', 'probe.requested', i, 'c', 'c', 's', 'ff', '{}', 'complete', i, i FROM n`,
      mark,
    );
    expect(await archive()).toBe(300);
    expect(await count("millrace_instances", "tenant_id GLOB ?1", `${mark}*`)).toBe(0);
    const found = (await probeEnv.PAYLOADS.list({ prefix: `runs/${mark}` })).objects;
    expect(new Set(found.map(({ key }) => key.split("/")[1])).size).toBe(30);
    await probeEnv.PAYLOADS.delete(found.map(({ key }) => key));
  });

  it("an instance that is too large for the keeper's memory remains in the database", async () => {
    const [large, small] = [await rowOf("complete", 31), await rowOf("complete", 31)];
    await run(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 17)
       INSERT INTO millrace_inbox (instance_id, step, position, class, state, epoch, token, output, updated_at)
       SELECT ?1, 'l' || i, i, 'commit', 'done', 1, 't', hex(zeroblob(500000)), 1 FROM n`,
      large,
    );
    expect(await archive()).toBe(1);
    expect([await statusOf(large), await statusOf(small)]).toEqual(["complete", undefined]);
    await run("DELETE FROM millrace_inbox WHERE instance_id = ?1", large);
    expect(await archive()).toBe(1);
  });

  it("an invalid ARCHIVE_AFTER_DAYS removes nothing", async () => {
    const id = await rowOf("complete", 40);
    const rule = ENGINE_RETENTION.find(({ name }) => name === "instances ended");
    const invalid = { ...probeEnv, ARCHIVE_AFTER_DAYS: "soon" };
    await expect(rule?.prune(invalid, DAY_MS, null)).rejects.toMatchObject({ code: "config_invalid" });
    expect(await statusOf(id)).toBe("complete");
  });
});

describe("A crash of the keeper", () => {
  it.each([
    ["instances noted for R2, not copied", { kept: 1, objects: 0 }],
    ["instances copied to R2, not removed", { kept: 1, objects: 1 }],
    ["instances moved to R2, slice not recorded", { kept: 0, objects: 1 }],
  ] as const)("K02 %s: no instance is lost, and a repeat moves each instance once", async (point, then) => {
    const id = await rowOf("complete", 31);
    const before = await objects();
    const death = dieAt(point);
    await expect(archive()).rejects.toThrow();
    expect(death.died()).toBe(true);
    expect(await rowsOf(id)).toMatchObject({ instances: then.kept, entries: then.kept, notes: then.kept, tombstones: 1 - then.kept });
    expect((await objects()).length - before.length).toBe(then.objects);
    expect((await (await reader()).get(`/v1/instances/${id}`)).body).toMatchObject({ id, status: "complete" });
    expect(await archive()).toBe(then.kept);
    expect(await rowsOf(id)).toEqual(GONE);
    expect((await objects()).length - before.length).toBe(1);
    expect((await (await reader()).get(`/v1/instances/${id}`)).body).toMatchObject({ id, archived_at: expect.any(String) });
  });

  it("K02 the database commits the move and its answer is lost: the repeat of the batch keeps the object", async () => {
    const id = await rowOf("complete", 31);
    const database = Object.getPrototypeOf(probeEnv.DB) as D1Database;
    const real = database.batch;
    let answers = 0;
    const batch = vi.spyOn(database, "batch").mockImplementation(async function (this: D1Database, statements) {
      const done = await real.call(this, statements);
      if (!JSON.stringify(statements).includes("INSERT INTO millrace_tombstones")) return done as never;
      if (answers++ === 0) throw new Error("D1_ERROR: Network connection lost.");
      return done as never;
    });
    const moved = await archive();
    batch.mockRestore();
    expect({ moved, answers }).toEqual({ moved: 1, answers: 2 });
    expect((await (await reader()).get(`/v1/instances/${id}`)).body).toMatchObject({ id, archived_at: expect.any(String) });
  });

  it("K03 an instance that an operator retries during the move remains, and its copy is not shown", async () => {
    const [id, other] = [await rowOf("complete", 31), await rowOf("complete", 31)];
    const retry = () => run("UPDATE millrace_instances SET status = 'running', updated_at = 1 WHERE id = ?1", id);
    expect(await justBefore("INSERT INTO millrace_tombstones", retry, () => archive())).toBe(1);
    expect([await statusOf(id), await statusOf(other)]).toEqual(["running", undefined]);
    expect((await (await reader()).get(`/v1/instances/${id}`)).body).toMatchObject({ status: "running", archived_at: null });
    await run("DELETE FROM millrace_instances WHERE id = ?1", id);
  });

  it("K04 a tenant that is erased during the move keeps no object and no row is replaced", async () => {
    const tenant = fresh("tenant").toLowerCase();
    const id = await rowOf("complete", 31);
    await run("UPDATE millrace_instances SET tenant_id = ?2 WHERE id = ?1", id, tenant);
    const erase = async () => {
      while ((await erasure.objects(probeEnv, tenant)) + (await erasure.removeInstances(probeEnv, tenant, "")) > 0);
    };
    await justBefore("INSERT INTO millrace_tombstones", erase, () => archive());
    expect(await objects(tenant)).toEqual([]);
    expect(await rowsOf(id)).toEqual({ ...GONE, tombstones: 0 });
  });

  it("K04 a move whose object another process has deleted removes no row", async () => {
    const [tenant, id] = [fresh("tenant").toLowerCase(), await rowOf("complete", 31)];
    await run("UPDATE millrace_instances SET tenant_id = ?2 WHERE id = ?1", id, tenant);
    expect(
      await justBefore(
        "INSERT INTO millrace_tombstones",
        () => erasure.objects(probeEnv, tenant),
        () => archive(),
      ),
    ).toBe(0);
    expect(await rowsOf(id)).toMatchObject({ instances: 1, entries: 1, tombstones: 0 });
    expect(await archive()).toBe(1);
    expect(await rowsOf(id)).toEqual(GONE);
  });
});

describe("An erasure", () => {
  /** Rewrites all strings of a tenant, as an erasure of a person does. */
  async function forget(name: string, apply = true) {
    const by = {
      mentions: [name.toLowerCase()],
      rewrite: (_: string, text: string) => text.replaceAll(new RegExp(name, "gi"), "forgotten-1"),
    };
    const sum = { changed: 0, waiting: 0 };
    for (const table of erasure.texts) {
      for (let from: string | null = null; ; ) {
        const found = await erasure.rewriteRows(probeEnv, { tenantId: "acme", table, by, from, apply });
        sum.changed += found.changed;
        sum.waiting += found.waiting;
        from = found.next;
        if (from === null) break;
      }
    }
    return sum;
  }

  async function bytesWith(text: string): Promise<string[]> {
    const found: string[] = [];
    for (const key of await objects()) {
      const bytes = new Uint8Array((await (await probeEnv.PAYLOADS.get(key))?.arrayBuffer()) ?? []);
      const view = new DataView(bytes.buffer);
      let at = 4 + view.getUint32(0) * 20;
      for (let index = 0; index < view.getUint32(0); index++) {
        const length = view.getUint32(4 + index * 20 + 16);
        const stream = new Blob([bytes.slice(at, at + length)]).stream().pipeThrough(new DecompressionStream("gzip"));
        if ((await new Response(stream).text()).toLowerCase().includes(text.toLowerCase())) found.push(key);
        at += length;
      }
    }
    return found;
  }

  it("of a person rewrites archived instances and their events, and a second pass finds nothing", async () => {
    const { by, id, person, secret } = await ended();
    await age(id, 31);
    const other = await rowOf("complete", 31);
    await archive();
    expect(await bytesWith(person.email)).toHaveLength(1);
    const counted = await forget(person.email, false);
    expect(counted.changed).toBeGreaterThanOrEqual(2);
    expect(await forget(person.email)).toEqual(counted);
    await forget(secret);
    expect(await forget(person.email)).toEqual({ changed: 0, waiting: 0 });
    expect([...(await bytesWith(person.email)), ...(await bytesWith(secret))]).toEqual([]);
    const seer = await reader("reveal");
    expect((await seer.get(`/v1/instances/${id}?reveal=true`)).body.payload.person.email).toBe("forgotten-1");
    expect((await by.get(`/v1/instances/${other}`)).body).toMatchObject({ id: other });
  });

  it("of a person or a tenant deletes the platform's copies of archived instances", async () => {
    const [tenantId, person] = [fresh("tenant").toLowerCase(), ada()];
    const runs = [await runLab(async () => person.email, { person }), await runLab(async () => person.email, { person, tenantId })];
    const ids = runs.map(({ instanceId }) => instanceId);
    for (const id of ids) await reaches(id, "complete");
    await Promise.all(ids.map((id) => platformReaches(id, "complete")));
    for (const id of ids) await age(id, 2);
    await archive("instances ended", 1);
    await forget(person.email, false);
    expect(await Promise.all(ids.map(async (id) => (await platformOf(id)).status))).toEqual(["complete", "complete"]);
    await forget(person.email);
    expect(await Promise.all(ids.map(async (id) => (await platformOf(id)).status))).toEqual(["unknown", "complete"]);
    while ((await erasure.removeInstances(probeEnv, tenantId, "")) > 0);
    expect(await Promise.all(ids.map(async (id) => (await platformOf(id)).status))).toEqual(["unknown", "unknown"]);
    expect(await objects(tenantId)).toEqual([]);
  });

  it("of a person waits for a move that has read the rows, and rewrites the copies of a crashed move", async () => {
    const { id, person } = await ended();
    await age(id, 31);
    const death = dieAt("instances copied to R2, not removed");
    await expect(archive()).rejects.toThrow();
    expect(death.died()).toBe(true);
    expect((await forget(person.email)).waiting).toBe(1);
    expect(await bytesWith(person.email)).toEqual([]);
    // A note that no keeper has removed for an hour does not delay an erasure.
    await run("UPDATE millrace_tenant_objects SET name = name - 3600001 WHERE binding = 'ARCHIVE'");
    expect((await forget(person.email)).waiting).toBe(0);
    await archive();
    expect(await forget(person.email)).toEqual({ changed: 0, waiting: 0 });
    expect(await bytesWith(person.email)).toEqual([]);
  });

  it("of a tenant removes its objects, and keeps those of others", async () => {
    const tenant = fresh("tenant").toLowerCase();
    const [mine, other] = [await rowOf("complete", 31), await rowOf("complete", 31)];
    await run("UPDATE millrace_instances SET tenant_id = ?2 WHERE id = ?1", mine, tenant);
    await archive();
    expect(await objects(tenant)).toHaveLength(1);
    while ((await erasure.objects(probeEnv, tenant)) + (await erasure.removeInstances(probeEnv, tenant, "")) > 0);
    expect(await objects(tenant)).toEqual([]);
    expect((await (await reader()).get(`/v1/instances/${other}`)).status).toBe(200);
  });
});

/** Number of measured instances; docs/retention.md has the figures of 100,000. */
const RUNS = 2500;

it("an archived instance takes at most 60 bytes of the database, and its move writes few rows", { timeout: 600_000 }, async () => {
  const [runs, mark] = [RUNS, fresh("bytes").toLowerCase()];
  const slice = runs / 5;
  const sizes: number[] = [];
  let written = 0;
  for (let at = 0; at < runs; at += slice) {
    await run(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
       INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)
       SELECT lower(hex(randomblob(16))), ?1, 'probe', 'probe.requested', hex(randomblob(16)), hex(randomblob(16)), hex(randomblob(16)), i, hex(randomblob(32)),
         json_object('payload_inline', printf('%0600d', i)), 'complete', 1, 1 FROM n`,
      mark,
      slice,
    );
    await run(
      `INSERT INTO millrace_inbox (instance_id, step, position, class, state, epoch, token, output, updated_at)
       SELECT id, 's', 0, 'commit', 'done', 1, 't', '{"ok":true}', 1 FROM millrace_instances WHERE tenant_id = ?1`,
      mark,
    );
    const batch = vi.spyOn(Object.getPrototypeOf(probeEnv.DB) as D1Database, "batch");
    expect(await archive()).toBe(slice);
    const answers = (await Promise.all(batch.mock.results.map(({ value }) => value))) as D1Result[][];
    batch.mockRestore();
    written += answers.flat().reduce((sum, { meta }) => sum + (meta.rows_written ?? 0), 0);
    sizes.push((await probeEnv.DB.prepare("SELECT 1").run()).meta.size_after);
  }
  // The pages of the removed rows are used again, so that from the second part on the database grows by the tombstones alone.
  const bytes = ((sizes.at(-1) ?? 0) - (sizes[0] ?? 0)) / (runs - slice);
  const { objects: stored } = await probeEnv.PAYLOADS.list({ prefix: `runs/${mark}/` });
  const inR2 = stored.reduce((sum, { size }) => sum + size, 0) / runs;
  const figures = { runs, d1_bytes: bytes, rows_written: written / runs, objects: stored.length, r2_bytes: inR2 };
  console.log(JSON.stringify({ log: "archived", ...figures }));
  expect(bytes).toBeLessThanOrEqual(60);
  expect(written / runs).toBeLessThanOrEqual(8);
  // A page of the scan may hold rows of other tests, so that a slice moves fewer than 250 instances.
  expect(stored.length).toBeGreaterThanOrEqual(runs / 250);
  expect(stored.length).toBeLessThanOrEqual(runs / 125);
  await probeEnv.PAYLOADS.delete(stored.map(({ key }) => key));
});
