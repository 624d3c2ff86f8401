import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { callerWith, expectProblem, type Json, research } from "../../api/client.ts";
import { dueSince, platformCron, reason, scheduled, seedSchedules, thisHour } from "./scheduled.ts";

describe("A schedule", () => {
  it("a schedule with an invalid field is refused with an error that names the field, and nothing is stored", async () => {
    const caller = await callerWith();
    const good = { cron: "0 7 * * 1", command: research("cold brew"), reason };
    for (const [wrong, path] of [
      [{ cron: "0 7 * * * *" }, "cron"],
      [{ cron: "0 7 * *" }, "cron"],
      [{ cron: "2030-01-01T00:00:00" }, "cron"],
      [{ cron: "61 7 * * *" }, "cron"],
      [{ cron: "0 0 30 2 *" }, "cron"],
      [{ time_zone: "Mars/Base" }, "time_zone"],
      [{ time_zone: "+01:00" }, "time_zone"],
      [{ time_zone: "-0330" }, "time_zone"],
      [{ command: { type: "research.requested", payload: { brand: "acme" } } }, "payload.keyword"],
      [{ late_seconds: 1 }, "late_seconds"],
      [{ command: { ...research("cold brew"), must_end_by: "2 hours" } }, "command.must_end_by"],
      [{ command: { ...research("cold brew"), callback_url: "https://example.com" } }, "command.callback_url"],
    ] as const) {
      const answer = await caller.call("PUT", "/v1/schedules/weekly", { ...good, ...wrong });
      expect(expectProblem(answer, 422, "invalid_payload").issues).toMatchObject([{ path }]);
    }
    const sync = { type: "contact.sync", payload: { contact_id: "a\u0000b", occasion: "x" } };
    expect(
      expectProblem(await caller.call("PUT", "/v1/schedules/weekly", { ...good, command: sync }), 422, "invalid_payload").issues,
    ).toMatchObject([{ path: "command.payload.contact_id" }]);
    const early = await caller.call("PUT", "/v1/schedules/weekly", { ...good, late_seconds: 1 });
    expect(early.body.issues).toEqual([{ path: "late_seconds", message: "must be at least 60" }]);
    const timed = await caller.call("PUT", "/v1/schedules/weekly", { ...good, command: { ...good.command, must_end_by: "2 hours" } });
    expect(timed.body.issues[0].message).toContain("its runs have the deadline of their workflow");
    const unknown = await caller.call("PUT", "/v1/schedules/weekly", { ...good, command: { type: "research.request", payload: {} } });
    expect(expectProblem(unknown, 404, "unknown_message_type").did_you_mean).toBe("research.requested");
    expectProblem(await caller.call("PUT", "/v1/schedules/Weekly", good), 422, "invalid_payload");
    expect((await caller.get("/v1/schedules")).body.items).toEqual([]);
  });

  it("a schedule with an invalid pattern is refused with an error that contains the pattern's field as written", async () => {
    const caller = await callerWith();
    for (const [at, range] of ["0 to 59", "0 to 23", "1 to 31", "1 to 12", "0 to 7"].entries()) {
      for (const wrong of [
        "99",
        "1-99",
        "x",
        "*/0",
        "-1",
        ...(range.startsWith("1") ? ["0"] : []),
        String(Number(range.split(" ")[2]) + 1),
      ]) {
        const cron = ["*", "*", "*", "*", "*"].with(at, wrong).join(" ");
        const answer = await caller.call("PUT", "/v1/schedules/weekly", { cron, command: research("cold brew"), reason });
        const [issue, ...others] = expectProblem(answer, 422, "invalid_payload").issues;
        expect(others).toEqual([]);
        expect([cron, issue.message]).toEqual([cron, expect.stringMatching(/^has `.*` for the .*: /)]);
        expect(issue.message).toContain(`\`${wrong}\` for the `);
        expect(issue.message).toContain(range);
      }
    }
  });

  it("a schedule keeps its command as parsed, and refuses an invalid or too large command", async () => {
    const { caller, path, put } = await scheduled();
    const known = { brand: "acme", keyword: "cold brew" };
    const unknown = await put({ command: { type: "research.requested", payload: { ...known, more: "x" } } });
    expect(expectProblem(unknown, 422, "invalid_payload").issues).toMatchObject([{ path: "payload.more" }]);
    expect((await put({ command: { type: "research.requested", payload: known } })).status).toBe(200);
    expect((await caller.get(path)).body.command.payload).toEqual({ ...known, cycle: "first" });
    const keywords = Array.from({ length: 400 }, (_, index) => `${index} ${"k".repeat(100)}`);
    const large = { type: "brand.cycle", payload: { brand: "acme", cycle: "c", keywords } };
    expect(expectProblem(await put({ command: large }), 413, "payload_too_large").detail).toContain("32768 bytes");
    expect((await caller.get(path)).body.command.payload).toEqual({ ...known, cycle: "first" });
  });

  it("the 1,001st schedule of a tenant is refused; existing ones can be changed and are listed in pages", async () => {
    const { caller, put } = await scheduled();
    await seedSchedules(caller, 999, "nobody.knows");
    const more = { cron: "0 7 * * 1", command: research("cold brew"), reason };
    expect(expectProblem(await caller.call("PUT", "/v1/schedules/more", more), 409, "invalid_transition").detail).toContain(
      "1000 schedules",
    );
    expect((await put()).status).toBe(200);
    const names: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const { body }: { body: Json } = await caller.get(`/v1/schedules?limit=200${cursor && `&cursor=${cursor}`}`);
      names.push(...body.items.map(({ name }: Json) => name));
      cursor = body.next_cursor;
    }
    expect(names).toEqual([...new Set(names)].sort());
    expect(names).toHaveLength(1000);
    await env.DB.prepare("DELETE FROM millrace_schedules WHERE tenant_id = ?1").bind(caller.tenantId).run();
  });

  it("a schedule's pattern can be a name such as @daily", async () => {
    const { path, caller } = await scheduled({ cron: "@daily" });
    expect((await caller.get(path)).body.next_at).toMatch(/T00:00:00\.000Z$/);
  });

  it("a schedule uses its own time zone, also across a clock change", async () => {
    const { path, caller } = await scheduled({ cron: "30 2 * * *", time_zone: "Europe/Berlin" });
    const next = Date.parse((await caller.get(path)).body.next_at);
    const time = new Intl.DateTimeFormat("en-GB", { timeZone: "Europe/Berlin", timeStyle: "short" }).format(next);
    expect(time).toMatch(/^0[23]:/);
  });

  it("a schedule can be deleted, and the outcomes of its due times can still be read", async () => {
    const { caller, path, runs } = await scheduled();
    await dueSince(caller, thisHour());
    await platformCron();
    expect((await caller.call("DELETE", `${path}?reason=no+longer+wanted`)).status).toBe(204);
    expectProblem(await caller.get(path), 404, "schedule_not_found");
    expectProblem(await caller.post(`${path}/run`, { reason }), 404, "schedule_not_found");
    expect(await runs()).toHaveLength(1);
  });

  it("the audit log has each change of a schedule with its author and reason", async () => {
    const { caller, path } = await scheduled();
    await caller.post(`${path}/pause`, { reason: "holidays" });
    await caller.post(`${path}/resume`, { reason: "back again" });
    await caller.post(`${path}/run`, { reason: "the customer asks for it" });
    await caller.call("DELETE", `${path}?reason=no+longer+wanted`);
    const { items } = (await caller.get("/v1/audit")).body;
    expect(items.map(({ verb, actor, reason, result }: Json) => [verb, actor, reason, result]).sort()).toEqual(
      [
        ["schedule", "ada", reason, "applied"],
        ["pause", "ada", "holidays", "applied"],
        ["resume", "ada", "back again", "applied"],
        ["run", "ada", "the customer asks for it", "applied"],
        ["unschedule", "ada", "no longer wanted", "applied"],
      ].sort(),
    );
  });

  it("a schedule is visible to its tenant only", async () => {
    const { path } = await scheduled();
    const other = await callerWith();
    expect((await other.get("/v1/schedules")).body.items).toEqual([]);
    expectProblem(await other.get(path), 404, "schedule_not_found");
    for (const verb of ["pause", "resume", "run"]) {
      expectProblem(await other.post(`${path}/${verb}`, { reason }), 404, "schedule_not_found");
    }
    expectProblem(await other.call("DELETE", `${path}?reason=${reason}`), 404, "schedule_not_found");
    expect((await other.get(`${path}/runs`)).body.items).toEqual([]);
  });
});
