import { defineStep, notRetryable } from "millrace";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { callerWith, expectProblem, type Json } from "../../api/client.ts";
import { LabEvent, labs } from "../../probe/lab.ts";
import { ProbeSignal } from "../../probe/messages.ts";
import { fresh, reaches, rows, until } from "../harness.ts";
import { runLab } from "../lab.ts";
import { ada, lettered, REDACTED, reader, told } from "./told.ts";

/** The log lines of the engine from now on, without the lines of the local runtime. */
function linesFromNow(): () => string[] {
  const spies = (["log", "warn", "error"] as const).map((level) => vi.spyOn(console, level));
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore();
  });
  return () => spies.flatMap((spy) => spy.mock.calls.map(([line]) => String(line))).filter((line) => line.startsWith('{"log":'));
}

describe("Sensitive fields", () => {
  it("sensitive fields are hidden in the input, steps, effects, messages and questions of an instance; the rest is shown", async () => {
    const [by, person] = [await reader(), ada()];
    const id = await told(person);
    const { body: instance } = await by.get(`/v1/instances/${id}`);
    expect(instance.payload.person).toEqual({ email: REDACTED, born: REDACTED, city: "London" });
    const { items: effects } = (await by.get(`/v1/instances/${id}/effects`)).body;
    expect(effects.map(({ step, input, output }: Json) => [step, input, output])).toEqual([
      ["mail", { to: REDACTED, text: REDACTED }, { sent_to: REDACTED }],
      ["tell", null, null],
    ]);
    const { items: messages } = (await by.get(`/v1/instances/${id}/events?payload=true`)).body;
    expect(messages.map(({ payload_inline }: Json) => payload_inline.person)).toEqual([
      { email: REDACTED, born: REDACTED, city: "London" },
    ]);
    const { items: asked } = (await by.get(`/v1/approvals?instance=${id}`)).body;
    expect(asked).toMatchObject([{ question: `Is ${REDACTED} meant?`, details: { to: REDACTED, city: "London" } }]);
    const all = await Promise.all(["", "/steps", "/effects", "/events?payload=true"].map((path) => by.get(`/v1/instances/${id}${path}`)));
    all.push(await by.get(`/v1/approvals/${asked[0].id}`), await by.get("/v1/instances?workflow=lab&limit=100"));
    expect(all.map(({ status }) => status)).toEqual(all.map(() => 200));
    expect(JSON.stringify(all.map(({ body }) => body)).toLowerCase()).not.toContain(person.email.toLowerCase());

    await by.post(`/v1/approvals/${asked[0].id}/approve`, { reason: "she is" });
    await reaches(id, "complete");
    const { result } = await until(
      async () => (await by.get(`/v1/instances/${id}`)).body,
      (body) => body.platform_status === "complete",
    );
    expect(result).toEqual({ mailed: REDACTED, at: "London" });
  });

  it("sensitive fields are hidden in the error of an instance, also in lists", async () => {
    const [by, person] = [await reader(), ada()];
    const id = await told(person, "fails");
    const { body } = await by.get(`/v1/instances/${id}`);
    expect(body.error).toMatchObject({ code: "not_retryable", message: `No mailbox ${REDACTED}.` });
    const listed = await by.get("/v1/instances?status=errored&limit=100");
    expect(listed.body.items.find((one: Json) => one.id === id).error.message).toBe(`No mailbox ${REDACTED}.`);
    const { body: steps } = await by.get(`/v1/instances/${id}/steps`);
    expect(steps.items.length).toBeGreaterThan(0);
    expect(JSON.stringify([listed.body, steps])).not.toContain(person.email);
  });

  it("sensitive fields of a received event are hidden in the inputs, effects, errors and log lines of its instance", async () => {
    const [by, code, about, logged] = [await reader(), `${fresh("door")} & 'garden'`, fresh("wait"), linesFromNow()];
    const { instanceId: id } = await runLab(async ({ step }) => {
      const { secret } = await step.waitFor("code", ProbeSignal, { subject: about });
      await step.commit("open", () => ({ output: { with: secret ?? "", beside: "the garden" } }));
      const asked = new URLSearchParams({ secret: secret ?? "" });
      await step.read("enter", () => Promise.reject(notRetryable(`Access denied for ${secret}: GET /enter?${asked} answered 403.`)));
    });
    await reaches(id, "waiting");
    await by.post(
      `/v1/instances/${id}/signals/${ProbeSignal.type}`,
      { payload: { about, value: "v", secret: code }, reason: "Told." },
      {
        "idempotency-key": about,
      },
    );
    await reaches(id, "errored");
    const hidden = `Access denied for ${REDACTED}: GET /enter?secret=${REDACTED} answered 403.`;
    expect((await by.get(`/v1/instances/${id}`)).body.error.message).toBe(hidden);
    const { items } = (await by.get(`/v1/instances/${id}/effects`)).body;
    expect(items.map(({ output }: Json) => output)).toEqual([{ with: REDACTED, beside: "the garden" }]);
    expect(JSON.stringify((await by.get(`/v1/instances/${id}/steps`)).body)).not.toContain("door");
    expect(logged().join("\n")).toContain(hidden);
    expect(logged().join("\n")).not.toContain(code);
  });

  it("sensitive fields are hidden in causes, log lines, and the items of a bulk action", async () => {
    const by = await reader();
    const logged = linesFromNow();
    // The text has no quotes, digits or @, so that a cause treats no part of it as variable.
    const person = { ...ada(), email: `Lovelace of ${fresh("a").replaceAll(/[^a-z]/g, "q")}` };
    const id = await told(person, "fails");
    expect(JSON.stringify(logged())).toContain(`No mailbox ${REDACTED}.`);
    expect(JSON.stringify(logged())).not.toContain(person.email);
    const words = async () => {
      const { items } = (await by.get("/v1/instances/causes?workflow=lab&limit=200")).body;
      return items.find(({ instance_id }: Json) => instance_id === id);
    };
    expect(await words()).toMatchObject({ message: `No mailbox ${REDACTED}.`, count: expect.any(Number) });
    const { status, body: bulk } = await by.post("/v1/bulk-actions", { verb: "retry", ids: [id], reason: "once more" });
    expect(status).toBe(202);
    const items = await until(
      async () => (await by.get(`/v1/bulk-actions/${bulk.id}/items?result=failed`)).body.items,
      (found) => found.length > 0,
    );
    expect(items).toMatchObject([{ target: id, code: "not_retryable", why: `No mailbox ${REDACTED}.` }]);
    const kept = await rows(
      "SELECT why FROM millrace_bulk_items WHERE bulk_id = ?1 UNION ALL SELECT output FROM millrace_inbox WHERE instance_id = ?2",
      bulk.id,
      bulk.instance_id,
    );
    expect(JSON.stringify(kept)).not.toContain("Lovelace");
  });

  it("sensitive fields are hidden in a dead letter, also when its message is malformed or of an unknown type", async () => {
    const [by, person] = [await reader(), ada()];
    const shown = async (letter: { id: string }) => (await by.get(`/v1/dead-letters/${letter.id}`)).body;
    const wrong = await shown(await lettered({ name: 7, note: "shown", person }));
    expect(wrong.body.payload_inline).toEqual({ name: 7, note: "shown", person: { email: REDACTED, born: REDACTED, city: "London" } });
    expect(wrong.body).toMatchObject({ message_type: "lab.requested", source: "shop" });
    const misnamed = await shown(await lettered({ name: 7, perosn: person, person: JSON.stringify(person) }));
    expect(misnamed.body.payload_inline).toEqual({ name: 7, perosn: REDACTED, person: REDACTED });
    const unknown = await shown(await lettered({ person }, { message_type: "lab.requestd" }));
    expect(unknown.body).toMatchObject({
      message_type: "lab.requestd",
      idempotency_key: unknown.idempotency_key,
      payload_inline: REDACTED,
    });
    const elsewhere = await shown(await lettered({}, { payload_inline: undefined, payload: person, kind: 7 }));
    expect(elsewhere.body).toMatchObject({ payload: REDACTED, kind: 7 });
    const misplaced = await shown(await lettered({}, { subject: person, source: "sh op", path: [] }));
    expect(misplaced.body).toMatchObject({ subject: REDACTED, source: "sh op", path: [] });
    const list = await by.get("/v1/dead-letters?limit=100");
    for (const seen of [wrong, misnamed, unknown, elsewhere, misplaced, list.body])
      expect(JSON.stringify(seen)).not.toContain(person.email);
  });

  it("sensitive fields are hidden in the dry run of a replay, for any edit of the message", async () => {
    const [by, person] = [await reader(), ada()];
    const { id } = await lettered({ name: 7, person });
    for (const body of [null, 5, person.email, [person]]) {
      const plan = await by.post(`/v1/dead-letters/${id}/replay`, { reason: "see", dry_run: true, body });
      expect(plan.body).toMatchObject({
        outcome: "refused",
        identity: null,
        instance: null,
        refused: { status: 422, code: expect.any(String) },
      });
      expect(JSON.stringify(plan.body)).not.toContain(person.email);
    }
  });

  it("sensitive fields are hidden when they are copied into an unmarked field of an emitted event or of a cause", async () => {
    const [by, person] = [await reader(), ada()];
    const { instanceId } = await runLab(
      async ({ payload: { name, person: who }, step }) => {
        await step.commit("tell", () => ({ emit: [LabEvent.from({ name, note: `Of ${who?.email}`, row: fresh("row") })] }));
        await step.read("fail", () =>
          Promise.reject(notRetryable(`There is no ${String(who?.email.split("@")[0])}, as ${who?.email} said`)),
        );
      },
      { person },
    );
    await reaches(instanceId, "errored");
    const { items } = (await by.get(`/v1/instances/${instanceId}/events?payload=true`)).body;
    expect(items.map(({ payload_inline }: Json) => payload_inline.note)).toEqual([`Of ${REDACTED}`]);
    const { body } = await by.get("/v1/instances/causes?workflow=lab&limit=200");
    const cause = body.items.find(({ instance_id }: Json) => instance_id === instanceId);
    expect(cause.message).toContain(REDACTED);
    expect(JSON.stringify(body)).not.toContain(person.email);
  });

  it("sensitive fields are hidden in a question found by a search, and in a bulk action's report of a dead letter", async () => {
    const [by, person] = [await reader(), ada()];
    const id = await told(person);
    const [asked] = (await by.get(`/v1/approvals?instance=${id}`)).body.items;
    const found = (await by.get(`/v1/search?q=${asked.id}`)).body.items.find(({ kind }: Json) => kind === "approval");
    expect(found.title).toBe(`Is ${REDACTED} meant?`);
    const letter = await lettered({ name: 7, [person.email]: 1 });
    const plan = await by.post("/v1/bulk-actions", { verb: "replay", ids: [letter.id], reason: "r", dry_run: true });
    expect(plan.body.sample).toMatchObject([{ id: letter.id, refused: expect.stringContaining("name") }]);
    expect(JSON.stringify(plan.body)).not.toContain(person.email);
  });

  it("sensitive fields are hidden in the stored items of a bulk action, also in cut texts and after the messages are deleted", async () => {
    const [by, person] = [await reader(), ada()];
    const large = defineStep({ effect: "natural", retries: { limit: 0, delay: 10 }, run: async () => ({ n: 1n }) as never });
    // One retry is refused with a message that names the step. The other retry fails with a message that is cut inside a hidden value.
    const refused = await runLab(({ step }) => step.effect("mail", large, {}, { key: person.email }), { person });
    const no = notRetryable(`${"x".repeat(290)} ${person.email}`);
    const fails = await runLab(({ step }) => step.read("fail", () => Promise.reject(no)), { person });
    const ids = [refused.instanceId, fails.instanceId];
    for (const id of ids) await reaches(id, "errored");
    const { body: bulk } = await by.post("/v1/bulk-actions", { verb: "retry", ids, stop_at_error_rate: 1, reason: "once more" });
    const failed = async () => (await by.get(`/v1/bulk-actions/${bulk.id}/items?result=failed`)).body.items;
    const items = await until(failed, (found) => found.length === 2);
    expect(items.map(({ code, why }: Json) => [code, why])).toEqual([
      ["invalid_transition", expect.stringContaining(`"mail [${REDACTED}]" happened`)],
      ["not_retryable", expect.stringContaining(`${"x".repeat(290)} ${REDACTED.slice(0, 8)}`)],
    ]);
    await rows("UPDATE millrace_instances SET envelope = json_remove(envelope, '$.payload_inline') WHERE id IN (?1, ?2)", ...ids);
    const kept = await rows("SELECT why FROM millrace_bulk_items WHERE bulk_id = ?1", bulk.id);
    expect(JSON.stringify([kept, await failed()])).not.toContain(person.email.slice(0, 8));
  });

  it("sensitive fields are hidden in the error of a refused replay, and in the reason of a failed repair", async () => {
    const [by, person, other] = [await reader("enqueue"), ada(), ada()];
    const { id } = await lettered({ name: 7, person });
    const { body: shown } = (await by.get(`/v1/dead-letters/${id}`)).body;
    const edited = { ...shown, payload_inline: { name: 7, person: { ...other, [other.email]: other.email, more: person.email } } };
    const plan = await by.post(`/v1/dead-letters/${id}/replay`, { reason: "r", body: edited, dry_run: true });
    expect(plan).toMatchObject({ status: 200, body: { outcome: "refused" } });
    for (const { email } of [person, other]) expect(JSON.stringify(plan.body)).not.toContain(email);
    const repair = { name: "mend", outcome: "failed", at: 1, changed: ["payload_inline.name"], error: `No ${person.email}` };
    await rows("UPDATE millrace_dead_letters SET repair = ?1 WHERE id = ?2", JSON.stringify(repair), id);
    const { body: letter } = await by.get(`/v1/dead-letters/${id}`);
    expect(letter.repair).toMatchObject({ changed: ["payload_inline.name"], error: `No ${REDACTED}` });
  });

  it("sensitive fields keep their values when a corrected dead letter contains the redaction marker", async () => {
    const [by, person] = [await reader("enqueue"), ada()];
    const { id, key } = await lettered({ name: 7, person });
    const { body: shown } = (await by.get(`/v1/dead-letters/${id}`)).body;
    const name = fresh("lab");
    labs.set(name, async ({ payload }) => payload.person?.email);
    const replay = (payload_inline: object) =>
      by.post(`/v1/dead-letters/${id}/replay`, { reason: "mended", body: { ...shown, subject: name, payload_inline } });
    const misplaced = expectProblem(await replay({ ...shown.payload_inline, name, note: REDACTED }), 422, "invalid_payload");
    expect(misplaced.issues).toEqual([{ path: "body", message: expect.stringContaining("write the value") }]);
    const { status, body } = await replay({ ...shown.payload_inline, name });
    expect([status, body.sent]).toEqual([202, true]);
    await reaches(body.instance_id, "complete");
    const [row] = await rows<{ payload: string }>(
      "SELECT envelope->>'payload_inline' AS payload FROM millrace_instances WHERE id = ?1",
      body.instance_id,
    );
    expect(JSON.parse(row?.payload ?? "{}")).toEqual({ name, person });
    expect(key).not.toBe(name);
  });

  it("sensitive fields are revealed only to the scope `reveal`, and the reader is in the audit", async () => {
    const [by, may, person] = [await reader(), await reader("reveal"), ada()];
    const id = await told(person);
    const { id: letter } = await lettered({ name: 7, person });
    const paths = [
      `/v1/instances/${id}`,
      `/v1/instances/${id}/effects`,
      `/v1/instances/${id}/events?payload=true`,
      `/v1/dead-letters/${letter}`,
    ];
    for (const path of paths) {
      const asked = `${path}${path.includes("?") ? "&" : "?"}reveal=true`;
      expect(expectProblem(await by.get(asked), 403, "forbidden").detail).toContain("`reveal`");
      expect(JSON.stringify((await may.get(path)).body)).not.toContain(person.email);
      expect(JSON.stringify((await may.get(asked)).body).toLowerCase()).toContain(person.email);
      await may.get(asked);
      const [pathname] = path.split("?");
      const { items } = (await by.get(`/v1/audit?target=${pathname}`)).body;
      // Two requests in different minutes have two audit rows.
      expect(items.slice(0, 1)).toMatchObject([{ verb: "reveal", actor: "ada", token_id: may.token.split("_")[1], scope: "read reveal" }]);
      expect(items.length).toBeLessThanOrEqual(2);
    }
  });

  it("a request to reveal an unknown id or another tenant's item is not in the audit as a reveal", async () => {
    const [by, may, person] = [await reader(), await reader("reveal"), ada()];
    const id = await told(person);
    const { id: letter } = await lettered({ name: 7, person });
    const [asked] = (await by.get(`/v1/approvals?instance=${id}`)).body.items;
    const stranger = await callerWith(["read", "reveal"], fresh("other"));
    const nothing = [may, "0".repeat(32), "0".repeat(32), "0".repeat(32)] as const;
    for (const [caller, instance, dead, question] of [nothing, [stranger, id, letter, asked.id] as const]) {
      const paths = ["", "/effects", "/events"].map((path) => `/v1/instances/${instance}${path}`);
      for (const path of [...paths, `/v1/dead-letters/${dead}`, `/v1/approvals/${question}`]) {
        expect((await caller.get(`${path}?reveal=true`)).status).toBe(404);
        expect(await rows("SELECT actor FROM millrace_actions WHERE verb = 'reveal' AND target = ?1", path)).toEqual([]);
      }
    }
    expect((await by.get(`/v1/instances/${"0".repeat(32)}?reveal=true&wait=30`)).status).toBe(403);
  });
});
