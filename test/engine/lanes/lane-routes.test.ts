import { createExecutionContext } from "cloudflare:test";
import { defineCommand, defineConsumer, MillraceError } from "millrace";
import { engineRoutes } from "millrace/http";
import { defineLane, defineLaneQueue, engineLanes, laneOf } from "millrace/lanes";
import { type Scope, tokens } from "millrace/operate";
import { catalog } from "millrace/worker";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { blocking } from "../../probe/lanes.ts";
import { blocked, heldUp, parked } from "../../probe/turns.ts";
import { app } from "../../probe/worker.ts";
import { until } from "../../until.ts";
import { fresh, probeEnv } from "../harness.ts";
import type { laneEnv } from "./lab.ts";
import { TurnKey } from "./turning.ts";

const api = engineRoutes(app);

async function caller(tenantId: string, scopes: readonly Scope[] = ["read", "operate"], env: object = probeEnv) {
  const token = await tokens.mint(probeEnv, { tenantId, actor: "tess", scopes });
  return async (path: string, body?: object) => {
    const headers = { authorization: `Bearer ${token}`, ...(body && { "content-type": "application/json" }) };
    const init = body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers };
    const response = await api.fetch(new Request(`http://localhost${path}`, init), env as never, createExecutionContext());
    return { status: response.status, body: (await response.json()) as Record<string, unknown> & { items?: Record<string, unknown>[] } };
  };
}

const pathOf = ({ name: { lane, key } }: TurnKey) => `/v1/lanes/${lane}/${encodeURIComponent(key)}`;

describe("Lane routes", () => {
  it("a stopped lane is listed until it is resumed", async () => {
    const ask = await caller("acme");
    const key = new TurnKey(blocked, "acme", `order/${crypto.randomUUID()} ü`);
    await key.poison();
    await key.stands(({ head }) => (head?.attempts ?? 0) > 0);
    expect((await ask(`${pathOf(key)}/pause`, { reason: "Look first." })).body).toMatchObject({ message_id: expect.any(String) });
    const listed = async () => (await ask("/v1/lanes?limit=200")).body.items?.find((item) => item.key === key.key);
    expect(await until(listed, (item) => item !== undefined)).toMatchObject({
      lane: "blocked",
      state: "paused",
      why: "An operator has paused the lane.",
      depth: 1,
      head: { type: "turn.blocked", idempotency_key: `${key.key}/${key.key} poison`, error: expect.stringContaining("invalid_payload") },
      recorded_at: expect.any(String),
    });
    expect(JSON.stringify(await listed())).not.toContain("payload_inline");
    expect((await ask(`${pathOf(key)}/skip-head`, { reason: "It cannot be repaired." })).status).toBe(200);
    expect((await ask(`${pathOf(key)}/resume`, { reason: "Go on." })).status).toBe(200);
    expect(await until(listed, (item) => item === undefined)).toBeUndefined();
    expect(await ask(pathOf(key))).toMatchObject({ status: 200, body: { state: "empty", depth: 0, head: null, ahead: [] } });
  });

  it("the lane routes count the lanes that one cause has stopped, and list the lanes of a cause", async () => {
    const tenant = fresh("tenant");
    const ask = await caller(tenant);
    const [first, second, third] = [new TurnKey(heldUp, tenant), new TurnKey(heldUp, tenant), new TurnKey(blocked, tenant)];
    for (const key of [first, second, third]) key.breaks("a");
    for (const key of [first, second]) await key.ask("a");
    await third.askAll("a", "b");
    for (const key of [first, second, third]) await key.reaches("a", "errored");
    await third.stands(({ ahead }) => ahead[0]?.failed != null);
    await ask(`${pathOf(third)}/pause`, { reason: "Look first." });
    const groups = async () => (await ask("/v1/lanes/causes")).body.items as Record<string, unknown>[];
    const found = await until(groups, (items) => items.length === 2 && items[0]?.keys === 2);
    expect(found).toMatchObject([
      {
        lane: "held",
        state: "held",
        keys: 2,
        waiting: 0,
        key: expect.any(String),
        failed: expect.any(String),
        cause: expect.any(String),
      },
      { lane: "blocked", state: "paused", keys: 1, waiting: 1, why: "An operator has paused the lane." },
    ]);
    const keysBy = async (filter: string) => (await ask(`/v1/lanes?${filter}`)).body.items?.map(({ key }) => key);
    expect(await keysBy(`lane=held&state=held&cause=${found[0]?.cause}`)).toEqual([first.key, second.key].toSorted());
    expect(await keysBy("lane=blocked")).toEqual([third.key]);
    expect(await keysBy("state=blocked")).toEqual([]);
    expect((await ask("/v1/lanes?limit=1&state=held")).body).toMatchObject({ items: [{ state: "held" }], next_cursor: expect.any(String) });
  });

  it("a lane action needs a reason; impossible actions are refused, and are in the audit", async () => {
    const ask = await caller("acme");
    const key = new TurnKey(parked);
    expect(await ask(`${pathOf(key)}/resume`, { reason: "Try." })).toMatchObject({ status: 409, body: { code: "invalid_transition" } });
    expect(await ask(`${pathOf(key)}/retry-head`, { reason: "Try." })).toMatchObject({ body: { detail: "The lane is empty." } });
    expect(await ask(`${pathOf(key)}/pause`, {})).toMatchObject({ status: 422 });
    const { body } = await ask(`${pathOf(key)}/pause`, { reason: "Wait." });
    const audit = (await ask("/v1/audit?limit=200")).body.items?.filter(({ target }) => target === `parked/${key.key}`);
    expect(audit?.map(({ verb, result, reason }) => [verb, result, reason])).toEqual(
      expect.arrayContaining([
        ["pause", "applied", "Wait."],
        ["resume", "no_change", "Try."],
        ["retry_head", "no_change", "Try."],
      ]),
    );
    expect(audit).toContainEqual(expect.objectContaining({ id: body.action_id }));
  });

  it("a tenant can read and change only its own lanes, and each lane action needs a scope", async () => {
    const key = new TurnKey(parked);
    const letGo = key.gate("a");
    await key.askAll("a", "b");
    await key.stands(({ state }) => state === "waiting");
    const [theirs, reader, nobody] = [await caller("globex"), await caller("acme", ["read"]), await caller("acme", ["enqueue"])];
    expect((await theirs(pathOf(key))).body).toMatchObject({ state: "empty", depth: 0, ahead: [] });
    expect(await theirs(`${pathOf(key)}/skip-head`, { reason: "Mine." })).toMatchObject({ status: 409 });
    expect((await theirs("/v1/lanes?limit=200")).body.items?.filter((item) => item.key === key.key)).toEqual([]);
    expect((await reader(pathOf(key))).body).toMatchObject({ state: "waiting", depth: 1, ahead: [{ instance_id: key.id("a") }] });
    expect(await reader(`${pathOf(key)}/pause`, { reason: "Try." })).toMatchObject({ status: 403 });
    expect(await nobody(pathOf(key))).toMatchObject({ status: 403 });
    letGo();
    await key.seenBy("b ends");
  });

  it("the lane routes return 404 for a lane that is not deployed", async () => {
    const ask = await caller("acme");
    expect(await ask("/v1/lanes/packed/acme")).toMatchObject({ status: 404, body: { code: "lane_not_found" } });
    expect(await ask("/v1/lanes/packed/acme/pause", { reason: "Try." })).toMatchObject({ status: 404 });
  });

  it("the lane routes return 404 for a lane of a custom lane object", async () => {
    const env = { ...probeEnv, LANES: (probeEnv as unknown as { ALONE_LANES: typeof laneEnv.LANES }).ALONE_LANES };
    const [ask, key] = [await caller("acme", ["read", "operate"], env), fresh("lone")];
    expect(await laneOf(env, blocking, key, { tenant: "acme" }).send({ n: 0 })).toMatchObject({ duplicate: false });
    const answers = [await ask(`/v1/lanes/blocking/${key}`), await ask(`/v1/lanes/blocking/${key}/pause`, { reason: "Try." })];
    expect(answers).toMatchObject([{ status: 404, body: { code: "lane_not_found" } }, { status: 404 }]);
  });

  it("the lane routes refuse a key that is too long for a lane", async () => {
    const ask = await caller("acme");
    const refused = { status: 422, body: { code: "invalid_payload", issues: [{ path: "key" }] } };
    expect(await ask(`/v1/lanes/blocked/${encodeURIComponent("鍵".repeat(500))}`)).toMatchObject(refused);
  });

  it("lanes are listed page by page, by lane and key", async () => {
    const ask = await caller("pager");
    const keys = [new TurnKey(parked, "pager"), new TurnKey(blocked, "pager"), new TurnKey(parked, "pager")];
    for (const key of keys) await ask(`${pathOf(key)}/pause`, { reason: "Wait." });
    const all = await until(
      async () => (await ask("/v1/lanes")).body.items ?? [],
      (items) => items.length === 3,
    );
    const first = (await ask("/v1/lanes?limit=2")).body;
    const second = (await ask(`/v1/lanes?limit=2&cursor=${first.next_cursor}`)).body;
    expect([...(first.items ?? []), ...(second.items ?? [])]).toEqual(all);
    expect(all.map(({ lane }) => lane)).toEqual(["blocked", "parked", "parked"]);
  });
});

describe("Configuration", () => {
  const queue = defineLaneQueue({ name: "loose" });
  const on = defineCommand({ type: "loose.asked", payload: z.object({}), key: () => "one", subject: () => "one", queue });
  const workflow = { ...parked.workflow, name: "turn-parked", on };

  it("a command for a lane whose object is not bound is refused, and the error shows the missing binding", async () => {
    const consumer = defineConsumer({ queue, starts: [workflow], onFailure: "park" });
    const env = { ...probeEnv, LANES: undefined };
    const asked = { type: "loose.asked", payload: {} };
    const [answer] = await acceptCommands(env as never, catalog({ consumers: [consumer] }), { tenantId: "acme", source: "test" }, [asked]);
    expect(answer).toBeInstanceOf(MillraceError);
    expect(answer).toMatchObject({ code: "config_invalid", message: expect.stringContaining('"Lanes": {"type": "durable-object"') });
  });

  it("a lane with missing or invalid options in its consumer is refused, and the error names the option", () => {
    const consumed = (options: object) => () => catalog({ consumers: [defineConsumer({ queue, starts: [workflow], ...options })] });
    expect(consumed({})).toThrow(/needs onFailure in its consumer/);
    expect(consumed({ onFailure: "park", sequence: { gap: "skip" } })).toThrow(/block the message that fills it/);
    expect(consumed({ onFailure: "park", concurrency: 0 })).toThrow(/concurrency 0/);
    expect(consumed({ onFailure: "park", batch: { size: 10, waitSeconds: 0 } })).toThrow(/one after another/);
    expect(() => defineLaneQueue({ name: "Loose Ends" })).toThrow(/not a lane's name/);
    const own = defineLane({ name: "loose", onFailure: "park", queue: () => undefined });
    const known = catalog({ consumers: [defineConsumer({ queue, starts: [workflow], onFailure: "park" })] });
    expect(() => engineLanes(known, [own])).toThrow(/Two lanes are named "loose"/);
  });
});
