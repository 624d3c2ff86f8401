import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { hookUrl, received, tell } from "../systems/webhooks/hook.ts";
import { callerWith, expectProblem, fresh, type Json, reaches, research, until } from "./client.ts";

const scopes = ["enqueue", "read", "operate", "tokens"] as const;

describe("A must_end_by at or before the time at which a delayed command is due", () => {
  const early = { delay_seconds: 3600, must_end_by: "10 minutes" };
  const issues = [{ path: "must_end_by", message: expect.stringContaining("is before the due time of the command, ") }];

  it.each([
    early,
    { delay_seconds: 3600, must_end_by: "1 hour" },
    { delay_seconds: 3600, must_end_by: new Date(Date.now() + 60_000).toISOString() },
  ])("a must_end_by before the due time is refused on request (%j), and no instance is created", async (ends) => {
    const caller = await callerWith();
    const answer = await caller.post("/v1/commands", { ...research(fresh()), ...ends });
    expect(expectProblem(answer, 422, "invalid_payload").issues).toEqual(issues);
    expect((await caller.get("/v1/instances")).body.items).toEqual([]);
  });

  it("a must_end_by after the due time is accepted, also in a repeat, which starts nothing", async () => {
    const caller = await callerWith();
    const command = research(fresh());
    const first = await caller.post("/v1/commands", { ...command, ...early, must_end_by: "2 hours" });
    expect(first.status).toBe(202);
    const again = await caller.post("/v1/commands", { ...command, ...early });
    expect(again).toMatchObject({ status: 202, body: { instance_id: first.body.instance_id, replayed: true } });
  });

  it("an invalid must_end_by is refused for its item of a batch only, also with a rate that delays the batch", async () => {
    const caller = await callerWith();
    const { body } = await caller.post("/v1/commands/batch", { commands: [research(fresh()), { ...research(fresh()), ...early }] });
    expect(body.results).toMatchObject([{ status: 202 }, { status: 422, problem: { issues } }]);
    const commands = [0, 1, 2].map(() => ({ ...research(fresh()), must_end_by: "30 minutes" }));
    const { results } = (await caller.post("/v1/commands/batch", { commands, rate_per_second: 0.001 })).body;
    expect(results).toMatchObject([{ status: 202 }, { status: 202 }, { status: 422, problem: { issues } }]);
  });
});

describe("A callback_url", () => {
  it("a callback_url receives the end of its command, signed with the secret of the tenant", async () => {
    const caller = await callerWith([...scopes]);
    const hook = fresh("callback");
    await tell(hook, { secrets: [(await caller.get("/v1/callback-secret")).body.secret] });
    const { body } = await caller.post("/v1/commands", { ...research(fresh()), callback_url: hookUrl(hook), must_end_by: "1 day" });
    const [call] = await received(hook, 1);
    expect(call).toMatchObject({ id: `${body.instance_id}-1-complete`, verified: [true] });
    expect(await reaches(caller, body.instance_id, "complete")).toMatchObject({ callback: { url: hookUrl(hook) }, overdue: false });
  });

  it.each([
    "https://10.0.0.1/hook",
    "https://169.254.169.254/latest/meta-data/",
    "https://[::ffff:10.0.0.1]/",
    "https://metadata.google.internal/",
    "http://example.com/",
    "https://user:secret@example.com/",
    "ftp://example.com/",
    "example.com/hook",
    "",
  ])("a callback_url with the value %s is refused on request, and no instance is created", async (url) => {
    const caller = await callerWith();
    const answer = await caller.post("/v1/commands", { ...research(fresh()), callback_url: url });
    const { issues } = expectProblem(answer, 422, "invalid_payload");
    expect(issues).toMatchObject([{ path: "callback_url" }]);
    expect((await caller.get("/v1/instances")).body.items).toEqual([]);
  });

  it("a callback_url is a CloudEvent attribute, as the deadline is, structured and binary; an invalid one is refused by that name", async () => {
    const caller = await callerWith();
    const hook = hookUrl(fresh("callback"));
    const event = () => ({
      specversion: "1.0",
      id: fresh("e"),
      source: "/shop",
      type: "research.requested",
      data: research(fresh()).payload,
    });
    const structured = { "content-type": "application/cloudevents+json" };
    const asked = { mustendby: "2030-01-01T00:00:00Z", callbackurl: hook };
    const one = await caller.post("/v1/commands", { ...event(), ...asked }, structured);
    const { data, id } = event();
    const binary = { "ce-specversion": "1.0", "ce-id": id, "ce-source": "/shop", "ce-type": "research.requested" };
    const other = await caller.post("/v1/commands", data, { ...binary, "ce-mustendby": asked.mustendby, "ce-callbackurl": hook });
    for (const { body } of [one, other]) {
      const { body: instance } = await caller.get(`/v1/instances/${body.instance_id}`);
      expect(instance).toMatchObject({ must_end_by: "2030-01-01T00:00:00.000Z", callback: { url: hook } });
    }
    for (const [wrong, path] of [
      [{ mustendby: "2001-01-01T00:00:00Z" }, "mustendby"],
      [{ mustendby: "soon" }, "mustendby"],
      [{ mustendby: "2027-02-30T00:00:00Z" }, "mustendby"],
      [{ callbackurl: "https://10.0.0.1/" }, "callbackurl"],
    ] as const) {
      const answer = await caller.post("/v1/commands", { ...event(), ...wrong }, structured);
      expect(expectProblem(answer, 422, "invalid_payload").issues).toMatchObject([{ path }]);
    }
  });

  it("an invalid callback_url of one item of a batch is refused for that item only", async () => {
    const caller = await callerWith();
    const commands = [research(fresh()), { ...research(fresh()), callback_url: "https://10.0.0.1/" }, research(fresh())];
    const { results } = (await caller.post("/v1/commands/batch", { commands })).body;
    expect(results.map(({ status }: Json) => status)).toEqual([202, 422, 202]);
  });

  it("a callback_url in a queue message is validated before the call: an invalid one is never called, and the instance records the reason", async () => {
    const caller = await callerWith();
    const { body } = await caller.ask(fresh());
    const row = await env.DB.prepare("SELECT envelope FROM millrace_instances WHERE id = ?1")
      .bind(body.instance_id)
      .first<{ envelope: string }>();
    const keyword = fresh();
    const own = { idempotency_key: keyword, subject: `acme/${keyword}`, payload_inline: { brand: "acme", keyword, cycle: "first" } };
    const url = "http://169.254.169.254/latest/meta-data/";
    await env.GATHERFEED_COMMANDS.send({ ...JSON.parse(row?.envelope ?? "{}"), ...own, correlation_id: keyword, callback_url: url });
    const calls = () => caller.get(`/v1/instances?correlation=${keyword}&workflow=send-callback&status=errored`);
    const [call] = (await until(calls, (answer) => answer.body.items.length > 0)).body.items;
    expect(call.error).toMatchObject({ step: "call back", code: "not_retryable" });
    expect(call.error.message).not.toContain("169.254");
  });
});
