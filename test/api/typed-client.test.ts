import { exports } from "cloudflare:workers";
import { ClientError, type ClientOptions, createClient, type Described, type Fetch, type Instance, type Listed } from "millrace/client";
import { afterEach, describe, expect, expectTypeOf, it, vi } from "vitest";
import type { Output } from "../../packages/millrace/cli/api-client.ts";
import type { EngineApi } from "../../packages/millrace/src/http/engine-routes.ts";
import type { auditBrand } from "../../src/workflows/audit-brand.ts";
import type { publishArticle } from "../../src/workflows/publish-article.ts";
import { draft, wantsApproval } from "../systems/content/article.ts";
import { callerWith, fresh, until } from "./client.ts";
import { seedInstance } from "./seed.ts";

type Workflows = typeof auditBrand | typeof publishArticle;

const clientOf = (token: string, options: ClientOptions = {}) =>
  createClient<Workflows>({ url: "https://engine.example", token, fetch: exports.default, ...options });

async function connected(options?: ClientOptions) {
  const caller = await callerWith();
  return { caller, client: clientOf(caller.token, options) };
}

/** Responds as a server would, from a list; the last response repeats. */
function answering(...answers: (Error | [status: number, body: unknown, headers?: Record<string, string>])[]) {
  const asked: Parameters<Fetch>[] = [];
  const fetch: Fetch = async (...request) => {
    asked.push(request);
    const answer = answers[Math.min(asked.length, answers.length) - 1];
    if (answer === undefined || answer instanceof Error) throw answer;
    const [status, body, headers = {}] = answer;
    const text = typeof body === "string" ? body : JSON.stringify(body);
    // No response that a program can create has the status 0.
    return status === 0 ? { status, headers: new Headers(), text: async () => "" } : new Response(text, { status, headers });
  };
  return { asked, fetch };
}

const problem = (code: string, status: number, retryable = true) => ({
  code,
  title: "A title",
  detail: "What happened.",
  status,
  retryable,
});
const accepted = { instance_id: "a", replayed: false, instance_status: "accepted", due_at: null, correlation_id: "b" };

afterEach(() => void vi.useRealTimers());

describe("A typed client of the real Worker, by a service binding", () => {
  it("the typed client enqueues a command, waits for its end, retries it and reads its result", async () => {
    const { caller, client } = await connected();
    const brand = fresh("brand");
    const asked = await client.enqueue("brand.audit", { brand });
    expect(asked).toMatchObject({ replayed: false, type: "brand.audit", instance_id: expect.stringMatching(/^[0-9a-f]{32}$/) });
    const failed = await client.wait(asked);
    expect(failed).toMatchObject({ status: "errored", result: null, error: { message: expect.stringContaining(`no brand "${brand}"`) } });
    await caller.call("PUT", `/v1/brands/${brand}`, { rate_per_second: 100 });
    expect(await client.retry(asked.instance_id, { reason: "the brand exists" })).toMatchObject({ action_id: expect.any(String) });
    const ended = await client.wait(asked);
    expect(ended).toMatchObject({ id: asked.instance_id, status: "complete", workflow: "audit-brand", result: { findings: [] } });
    expectTypeOf(ended.result).toEqualTypeOf<{
      at: number;
      counts: { live: number; drafts: number; on_their_way: number; held: number };
      findings: string[];
    } | null>();
    if (ended.status === "complete") expectTypeOf(ended.result.findings).toEqualTypeOf<string[]>();
    expect((await client.get<"brand.audit">(asked.instance_id)).result?.findings).toEqual([]);
    const { items, next_cursor } = await client.list({ workflow: "audit-brand", status: "complete", limit: 10 });
    expect([items.map(({ id }) => id), next_cursor]).toEqual([[asked.instance_id], null]);
  });

  it("the typed client repeats a command whose response was lost, as one instance", async () => {
    const caller = await callerWith();
    let lost = 0;
    const fetch: Fetch = async (url, init) => {
      const answer = await exports.default.fetch(url, init);
      if (lost++ === 0) throw new TypeError("Network connection lost.");
      return answer;
    };
    const client = clientOf(caller.token, { fetch });
    const key = `${fresh("key")}, "a\\b"`;
    const asked = await client.enqueue("brand.audit", { brand: fresh("brand") }, { idempotency_key: key });
    expect([lost, asked.replayed]).toEqual([2, true]);
    const { items } = await client.list();
    expect(items).toMatchObject([{ id: asked.instance_id, idempotency_key: key }]);
  });

  it("the typed client pauses, resumes and cancels an instance, and wait returns a cancelled instance", async () => {
    const { client } = await connected();
    const { instance_id: id } = await client.enqueue("brand.audit", { brand: fresh("brand") }, { delay_seconds: 600 });
    await client.pause(id, { reason: "check first" });
    expect((await client.get(id)).status).toBe("paused");
    await expect(client.wait(id, { timeout_seconds: 0 })).rejects.toMatchObject({ code: "not_ended", retryable: true });
    await client.resume(id, { reason: "checked" });
    await client.cancel(id, { reason: "not needed", undo: false });
    expect(await client.wait(id)).toMatchObject({ status: "terminated", result: null });
    await expect(client.cancel(id, { reason: "again" })).rejects.toMatchObject({
      code: "invalid_transition",
      status: 409,
      retryable: false,
    });
  });

  it("the typed client answers a question of an instance", async () => {
    const { caller, client } = await connected();
    await wantsApproval(caller, "careful");
    const { id: content_id } = await draft(caller, { brand: "careful", keyword: fresh("tea") });
    const asked = await client.enqueue("content.publish", { content_id, brand: "careful" });
    const { waiting_for } = await until(
      () => client.get(asked.instance_id),
      (found) => found.waiting_for.length > 0,
    );
    const approval = waiting_for[0]?.approval_id ?? "";
    expect(await client.reject(approval, { reason: "too short" })).toMatchObject({ instance_id: asked.instance_id });
    expect(await client.wait(asked)).toMatchObject({ status: "complete" });
    await expect(client.approve(approval, { reason: "late" })).rejects.toMatchObject({ code: "invalid_transition" });
  });

  it("the typed client sends a signal to an instance, once per key", async () => {
    const { caller, client } = await connected();
    const waiting = await seedInstance(caller.tenantId, { status: "waiting" });
    const payload = { endpoint_id: "e", version: 1 };
    const signal = () => client.signal(waiting, "webhook.switched", payload, { reason: "it is on", idempotency_key: "k" });
    expect(await signal()).toMatchObject({ replayed: false, event_id: expect.any(String) });
    expect(await signal()).toMatchObject({ replayed: true });
  });

  it("the typed client throws the problem of the API as a ClientError", async () => {
    const { client } = await connected();
    const refused = await client.enqueue("brand.audit", { brand: "" }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ClientError);
    expect(refused).toMatchObject({ code: "invalid_payload", status: 422, retryable: false, title: expect.any(String) });
    expect((refused as ClientError).issues).toMatchObject([{ path: "payload.brand" }]);
    await expect(client.get("0".repeat(32))).rejects.toMatchObject({ code: "instance_not_found", status: 404 });
    await expect(clientOf("mr_none").list()).rejects.toMatchObject({ code: "unauthorized", status: 401 });
  });
});

describe("A typed client of a failing server", () => {
  it("the typed client repeats a request after the seconds that Retry-After has, and not before", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const done = { action_id: "1" };
    const { asked, fetch } = answering([429, problem("rate_limited", 429), { "retry-after": "7" }], [202, done]);
    const answer = clientOf("t", { fetch }).retry("a", { reason: "r" });
    await vi.advanceTimersByTimeAsync(6_999);
    expect(asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(await answer).toEqual(done);
    expect(asked).toHaveLength(2);
  });

  it("the typed client repeats an enqueue with the same key until its retries are used up", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { asked, fetch } = answering(new TypeError("fetch failed"), [503, problem("unavailable", 503)], [502, "<html>"]);
    const answer = clientOf("t", { fetch, retries: 3 }).enqueue("brand.audit", { brand: "b" }, { idempotency_key: "k" });
    const failed = answer.catch((error: unknown) => error);
    await vi.runAllTimersAsync();
    expect(await failed).toMatchObject({ code: "unexpected_answer", status: 502, retryable: true });
    expect(asked.map(([url, { headers }]) => [url, headers["idempotency-key"]])).toEqual(
      Array(4).fill(["https://engine.example/v1/commands", '"k"']),
    );
    expect(asked[0]?.[1].headers).toMatchObject({ authorization: "Bearer t" });
  });

  it.each([
    ["an action without a response", [new TypeError("fetch failed")], "no_answer", 1],
    ["an action that is refused temporarily", [[503, problem("unavailable", 503)]], "unavailable", 1],
    ["a Retry-After above one minute", [[429, problem("rate_limited", 429), { "retry-after": "61" }]], "rate_limited", 1],
  ] as const)("the typed client does not repeat %s", async (_, answers, code, times) => {
    const { asked, fetch } = answering(...(answers as unknown as Parameters<typeof answering>));
    await expect(clientOf("t", { fetch }).cancel("a", { reason: "r" })).rejects.toMatchObject({ code });
    expect(asked).toHaveLength(times);
  });

  it.each(["", "鍵"])("the typed client refuses the key %o, which a header cannot carry", async (idempotency_key) => {
    const { asked, fetch } = answering([202, accepted]);
    const refused = clientOf("t", { fetch }).enqueue("brand.audit", { brand: "b" }, { idempotency_key });
    await expect(refused).rejects.toMatchObject({ code: "invalid_payload", issues: [{ path: "idempotency_key" }] });
    expect(asked).toEqual([]);
  });

  it("the typed client refuses a page of another server, and the error suggests to check the URL", async () => {
    const { fetch } = answering([200, "<!doctype html>"]);
    await expect(clientOf("t", { fetch }).list()).rejects.toMatchObject({
      code: "unexpected_answer",
      message: expect.stringContaining("Check `url`"),
    });
  });

  it.each([
    ["a redirect to another host", 307],
    ["a redirect as a browser receives it", 0],
  ])("the typed client does not follow %s, so that the token and the payload are not disclosed", async (_, status) => {
    const { asked, fetch } = answering([status, ""]);
    await expect(clientOf("t", { fetch }).enqueue("brand.audit", { brand: "b" })).rejects.toMatchObject({
      code: "unexpected_answer",
      message: expect.stringContaining("is not followed"),
    });
    expect(asked.map(([, { redirect }]) => redirect)).toEqual(["manual"]);
  });

  it.each([{}, [], { hello: 1 }])("the typed client refuses the response %j, which is JSON but not an engine's", async (body) => {
    const { fetch } = answering([200, body]);
    const client = clientOf("t", { fetch });
    await expect(client.enqueue("brand.audit", { brand: "b" })).rejects.toMatchObject({ code: "unexpected_answer" });
    await expect(client.list()).rejects.toMatchObject({ code: "unexpected_answer" });
  });

  it("the typed client does not show the token in an error, for an invalid token and for a response that contains it", async () => {
    const { asked, fetch } = answering([404, "you sent Bearer mr_secret"]);
    const failed = (token: string) =>
      clientOf(token, { fetch })
        .list()
        .catch((error: ClientError) => error);
    const errors = [await failed("mr_sec\nret"), await failed("mr_secret")] as ClientError[];
    expect(errors).toMatchObject([{ code: "invalid_payload" }, { code: "unexpected_answer" }]);
    for (const { message, cause } of errors) expect(`${message}${String(cause)}`).not.toContain("mr_");
    expect(asked).toHaveLength(1);
  });

  it.each(["..", "a/b", ""])("the typed client does not request the id %o, which is another path", async (id) => {
    const { asked, fetch } = answering([200, {}]);
    await expect(clientOf("t", { fetch }).get(id)).rejects.toMatchObject({ code: "invalid_payload", issues: [{ path: "id" }] });
    expect(asked).toEqual([]);
  });

  it("the typed client does not send a payload that is not JSON", async () => {
    const { asked, fetch } = answering([202, accepted]);
    const refused = clientOf("t", { fetch }).signal("a", "x", { n: 1n }, { reason: "r", idempotency_key: "k" });
    await expect(refused).rejects.toMatchObject({ code: "invalid_payload", issues: [{ path: "payload" }] });
    expect(asked).toEqual([]);
  });

  it("the typed client ends a wait at its deadline, also when the server or the token function hangs", async () => {
    const never = () => new Promise<never>(() => {});
    const hangs = (_: string, { signal }: { signal: AbortSignal }) =>
      new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    const clients = [clientOf("t", { fetch: hangs }), clientOf("", { fetch: hangs, token: never })];
    for (const client of clients)
      await expect(client.wait("a", { timeout_seconds: 0.05 })).rejects.toMatchObject({ code: "not_ended", retryable: true });
  });

  it("the typed client waits until the date of Retry-After", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
    vi.setSystemTime(Date.parse("2026-11-28T12:00:00Z"));
    const date = "Sat, 28 Nov 2026 12:00:20 GMT";
    const { asked, fetch } = answering([429, problem("rate_limited", 429), { "retry-after": date }], [200, { items: [] }]);
    const answer = clientOf("t", { fetch }).list();
    await vi.advanceTimersByTimeAsync(19_999);
    expect(asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(await answer).toEqual({ items: [] });
  });

  it("the typed client ends an aborted call with the reason of its signal, also between two tries", async () => {
    const { asked, fetch } = answering([503, problem("unavailable", 503), { "retry-after": "30" }]);
    const abort = new AbortController();
    const answer = clientOf("t", { fetch }).list({ signal: abort.signal });
    await vi.waitFor(() => expect(asked).toHaveLength(1));
    abort.abort(new Error("The page was closed."));
    await expect(answer).rejects.toThrow("The page was closed.");
  });

  it("the typed client calls the token function before each request", async () => {
    const { asked, fetch } = answering([200, { items: [], next_cursor: null }]);
    let tokens = 0;
    const client = clientOf("", { fetch, token: async () => `t${++tokens}`, url: "https://engine.example/" });
    await client.list({ status: "errored" });
    await client.list();
    expect(asked.map(([url, { headers }]) => [url, headers.authorization])).toEqual([
      ["https://engine.example/v1/instances?status=errored", "Bearer t1"],
      ["https://engine.example/v1/instances?", "Bearer t2"],
    ]);
  });
});

it("a misspelled command, a missing field and a wrong result do not compile with the typed client", () => {
  const use = async (client: ReturnType<typeof clientOf>) => {
    // @ts-expect-error: there is no such command.
    await client.enqueue("brand.audits", { brand: "b" });
    // @ts-expect-error: `brand` is missing.
    await client.enqueue("brand.audit", {});
    // @ts-expect-error: `content_id` is text.
    await client.enqueue("content.publish", { content_id: 7, brand: "b" });
    const ended = await client.wait(await client.enqueue("brand.audit", { brand: "b" }));
    // @ts-expect-error: `result` may be null: the instance may have failed.
    ended.result.findings;
    // @ts-expect-error: an act has a reason.
    await client.retry("a", {});
  };
  type Greet = Described<"greet", { name: string }, { said: string }>;
  const described = async () => (await createClient<Greet>().wait<"greet">("a")).result?.said;
  expectTypeOf<Awaited<ReturnType<typeof described>>>().toEqualTypeOf<string | undefined>();
  expect(use).toBeTypeOf("function");
});

it("the client's types are those of the API", () => {
  type Shown = Output<EngineApi, "/v1/instances/:id", "$get">;
  type Page = Output<EngineApi, "/v1/instances", "$get">;
  expectTypeOf<Page["items"][number]>().toExtend<Listed>();
  expectTypeOf<Pick<Shown, keyof Listed>>().toExtend<Listed>();
  expectTypeOf<Shown["status"]>().toEqualTypeOf<Instance["status"]>();
});
