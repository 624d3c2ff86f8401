import { env } from "cloudflare:workers";
import { engineRoutes } from "millrace/http";
import { describe, expect, it } from "vitest";
import { app } from "../../src/catalog.ts";
import { callerWith, fresh, type Json, reaches } from "./client.ts";

const research = (keyword: string, more: object = {}) => ({ type: "research.requested", payload: { brand: "acme", keyword, ...more } });

const named = (items: Json[], name: string) => items.find((one) => one.name === name || one.type === name);

describe("The catalog", () => {
  it("the catalog describes a message, its permitted senders, its handler and the resulting messages", async () => {
    const { body } = await (await callerWith(["read"])).get("/v1/catalog");
    expect(named(body.messages, "research.requested")).toMatchObject({
      kind: "command",
      workflow: "research-keyword",
      queue: "gatherfeed-commands",
      access: { scope: "enqueue", route: "POST /v1/commands" },
      payload_schema: { type: "object", required: ["brand", "keyword"], properties: { brand: { type: "string", examples: ["acme"] } } },
    });
    expect(named(body.messages, "content.unpublish").access).toEqual({ scope: "operate", route: "POST /v1/articles/{id}/unpublish" });
    expect(named(body.messages, "content.generated")).toMatchObject({
      kind: "event",
      access: null,
      workflow: null,
      targets: [
        { do: "send", type: "content.publish", workflow: null },
        { do: "call", type: null, workflow: null },
      ],
    });
    expect(named(body.messages, "research.completed").targets).toContainEqual({ do: "start", type: null, workflow: "generate-article" });
    expect(named(body.queues, "brand-events")).toMatchObject({ kind: "events", is_lane: false, batch_size: 100 });
    expect(named(body.workflows, "generate-article").on).toEqual({ kind: "event", type: "research.completed" });
  });

  it("the catalog lists a workflow's steps and emitted messages from the tenant's own instances", async () => {
    const [caller, stranger] = [await callerWith(), await callerWith()];
    const { body } = await caller.ask(fresh("keyword"));
    await reaches(caller, body.instance_id, "complete");
    const of = async (by: typeof caller) => named((await by.get("/v1/catalog")).body.workflows, "research-keyword");
    expect(await of(caller)).toMatchObject({
      steps: [
        { name: "decide", class: "natural" },
        { name: "search the web", class: "natural" },
        { name: "synthesize", class: "keyed" },
      ],
      emits: expect.arrayContaining([{ kind: "event", type: "research.completed" }]),
    });
    expect(await of(stranger)).toMatchObject({ steps: [], emits: [] });
  });

  it("the catalog is returned also when a step has emitted more than the stored maximum", async () => {
    const caller = await callerWith();
    const { body } = await caller.ask(fresh("keyword"));
    await reaches(caller, body.instance_id, "complete");
    const emits = async () => named((await caller.get("/v1/catalog")).body.workflows, "research-keyword").emits;
    const before = await emits();
    const counted = `json_insert(messages, '$[#]', json('{"message_type":"word.found","omitted":3}'))`;
    await env.DB.prepare(`UPDATE millrace_inbox SET messages = ${counted} WHERE instance_id = ?1 AND messages LIKE '[{%'`)
      .bind(body.instance_id)
      .run();
    expect((await caller.get(`/v1/instances/${body.instance_id}/events`)).body).toMatchObject({ truncated: true });
    expect(await emits()).toEqual(before);
    expect(before).not.toEqual([]);
  });
});

it.each(["nope", "__proto__", "content.unpublish.not", "research.completed", "bulk_action.run"])(
  "a first command for new users without a permitted sender, such as %s, stops the start of the Worker, and the error lists the permitted senders",
  (type) => {
    expect(() => engineRoutes(app, { firstCommand: { type, payload: {}, why: "to try" } })).toThrow(
      /not a command open to the outside.* research\.requested/,
    );
  },
);

describe("A check of a message before it is sent", () => {
  it("a check shows the key and the subject of the message, and the current holder of the key", async () => {
    const [caller, stranger] = [await callerWith(), await callerWith()];
    const keyword = fresh("Keyword");
    const look = async (more: object = {}, by = caller) => (await by.post("/v1/catalog/check", { ...research(keyword), ...more })).body;
    const key = `acme/first/${keyword.toLowerCase()}`;
    expect(await look()).toEqual({ key, subject: `acme/${keyword}`, outcome: "new", holder: null, refused: null });
    expect((await caller.get("/v1/instances")).body.items).toEqual([]);

    const { body: sent } = await caller.post("/v1/commands", research(keyword));
    expect(await look()).toMatchObject({ outcome: "repeat", holder: { id: sent.instance_id } });
    expect((await caller.post("/v1/commands", research(keyword))).body).toMatchObject({ replayed: true, instance_id: sent.instance_id });
    expect(await look({ ...research(`${keyword} 2`), idempotency_key: key })).toMatchObject({ key, outcome: "reused" });
    expect(await look({}, stranger)).toMatchObject({ outcome: "new", holder: null });
  });

  it("a check requires the permission to send, because it reveals which fields of a payload are a key", async () => {
    const answer = await (await callerWith(["read", "operate"])).post("/v1/catalog/check", research("mint"));
    expect(answer).toMatchObject({ status: 403, body: { code: "forbidden" } });
  });

  it("a check is refused with every error of the message, as a send is", async () => {
    const caller = await callerWith();
    for (const wrong of [research(""), research("mint", { keywrod: 1 }), { type: "research.request", payload: {} }]) {
      const [seen, sent] = [await caller.post("/v1/catalog/check", wrong), await caller.post("/v1/commands", wrong)];
      expect(seen.body).toMatchObject({ outcome: "refused", key: null, refused: { code: sent.body.code, detail: sent.body.detail } });
      expect(seen.body.refused.issues).toEqual(sent.body.issues);
    }
  });

  it("a check of an event requires a name, and shows the current holder of the name", async () => {
    const caller = await callerWith();
    const event = { kind: "event", type: "keyword.trending", payload: { brand: fresh("brand"), keyword: "mint", seen_on: "2026-10-01" } };
    expect((await caller.post("/v1/catalog/check", event)).body).toMatchObject({ key: null, outcome: "new" });
    const key = fresh("seen");
    const { kind: _, ...stated } = event;
    const { body } = await caller.post("/v1/events", stated, { "idempotency-key": key });
    expect((await caller.post("/v1/catalog/check", { ...event, idempotency_key: key })).body).toMatchObject({
      key,
      outcome: "repeat",
      holder: { id: body.event_id, status: "stated" },
    });
  });
});
