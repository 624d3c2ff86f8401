import { createExecutionContext } from "cloudflare:test";
import { defineWorkflow, ids, millrace, notRetryable } from "millrace";
import { type InboundSource, inboundRoutes, webhooks } from "millrace/http";
import { instances as engineInstances } from "millrace/operate";
import { settleCounts } from "millrace/testing";
import { keeperOf } from "millrace/worker";
import { beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import * as z from "zod";
import { buildSite, type handler } from "../../docs/examples/inbound.ts";
import { shopify } from "../../docs/examples/inbound-scheme.ts";
import { app } from "../../probe/worker.ts";
import { dieAt, failAt, fresh, keeperRound, operator, probeEnv, reaches, rows } from "../harness.ts";
import { command, FORM, hmac, JSON_TYPE, ofSlack, paid, pushed, SECRETS, send, shipped, sign } from "./webhook.ts";

const paymentOf = (id: string, source = "stripe") => ids.instance("acme", "record-payment", `${source}/${id}`);
const buildOf = (id: string, source: string) => ids.instance("acme", "build-site", `${source}/${id}`);
const recordedPayments = (id: string) => rows("SELECT amount FROM paid_invoices WHERE id = ?1", id);
const instances = (id: string) => rows("SELECT id FROM millrace_instances WHERE id = ?1", id);

/** The log lines of inbound webhooks, and of missing secrets. */
function logged() {
  const lines: { log: string }[] = [];
  for (const level of ["log", "error"] as const) {
    const spy = vi.spyOn(console, level).mockImplementation((line) => void lines.push(JSON.parse(line)));
    onTestFinished(() => spy.mockRestore());
  }
  return (log: string) => lines.filter((line) => line.log === log);
}

beforeAll(async () => {
  await probeEnv.DB.exec(
    "CREATE TABLE IF NOT EXISTS paid_invoices (tenant_id TEXT NOT NULL, id TEXT NOT NULL, amount INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (tenant_id, id)) STRICT",
  );
});

describe("Webhooks", () => {
  it.each([
    ["stripe", (id: string) => paid(id), paymentOf],
    ["github", (id: string) => pushed(id), buildOf],
    ["shop", (id: string) => shipped(id), paymentOf],
    ["shop", (id: string) => shipped(id, "svix"), paymentOf],
  ])("a webhook of %s becomes one instance, and its repeats get the same answer", async (source, request, idOf) => {
    const id = fresh("hook");
    const instance = idOf(id, source);
    expect(await send(source, request(id))).toEqual({ status: 200, body: { ignored: false, id: instance, replayed: false } });
    expect(await send(source, request(id))).toEqual({ status: 200, body: { ignored: false, id: instance, replayed: true } });
    expect(await reaches(instance, "complete")).toBe("complete");
    expect(await send(source, request(id))).toMatchObject({ status: 200, body: { id: instance, replayed: true } });
    const [row] = await rows<{ envelope: string }>("SELECT envelope FROM millrace_instances WHERE id = ?1", instance);
    expect(JSON.parse(row?.envelope ?? "")).toMatchObject({
      ...{ tenant_id: "acme", source: `inbound/${source}` },
      ...{ idempotency_key: `${source}/${id}`, causation_id: `inbound/${source}/${id}` },
    });
  });

  it("a webhook with a Slack slash command becomes one instance, and gets an empty answer, which Slack does not show", async () => {
    const id = fresh("trigger");
    for (let sent = 0; sent < 2; sent++) expect(await send("slack", command(id))).toEqual({ status: 200, body: "" });
    expect(await reaches(buildOf(id, "slack"), "complete")).toBe("complete");
  });

  it("a webhook that its sender repeats with another payload returns the first instance", async () => {
    const id = fresh("evt");
    const first = await send("stripe", paid(id, id, { pending_webhooks: 2 }));
    expect(await send("stripe", paid(id, id, { pending_webhooks: 1 }))).toEqual({ ...first, body: { ...first.body, replayed: true } });
    expect(await send("stripe", paid(id, `${id}-other`))).toEqual({ ...first, body: { ...first.body, replayed: true } });
    expect(await reaches(paymentOf(id), "complete")).toBe("complete");
    expect([await recordedPayments(id), await recordedPayments(`${id}-other`)]).toEqual([[{ amount: 1250 }], []]);
  });

  it("a webhook signed with the previous secret is accepted until that secret is removed", async () => {
    const { body } = paid(fresh("evt"));
    const old = { body, headers: { ...JSON_TYPE, ...sign.stripe(body, "whsec_old") } };
    expect((await send("stripe", old)).status).toBe(401);
    expect((await send("stripe", old, { STRIPE_SECRET_OLD: "whsec_old" })).status).toBe(200);
    // Stripe signs with both secrets during a rotation.
    const both = { ...sign.stripe(body, "whsec_third") };
    both["stripe-signature"] += sign.stripe(body)["stripe-signature"].replace(/^[^,]*/, "");
    expect(await send("stripe", { body, headers: { ...JSON_TYPE, ...both } })).toMatchObject({ body: { replayed: true } });
  });

  it("a webhook of a source without a secret is refused (404), and the log names the secret to set", async () => {
    const lines = logged();
    for (const STRIPE_SECRET of [undefined, "", " "]) {
      const { body } = paid(fresh("evt"));
      const empty = { body, headers: { ...JSON_TYPE, ...sign.stripe(body, "") } };
      expect(await send("stripe", empty, { STRIPE_SECRET })).toMatchObject({ status: 404, body: { code: "route_not_found" } });
    }
    expect(lines("config_invalid")).toContainEqual(
      expect.objectContaining({ error: expect.stringContaining("wrangler secret put STRIPE_SECRET") }),
    );
    expect((await send("none", paid(fresh("evt")))).status).toBe(404);
  });

  it("a webhook request that only verifies the endpoint's address is answered if the request is signed", async () => {
    const challenge = JSON.stringify({ type: "url_verification", challenge: "3eZbrw1aBm2r" });
    expect(await send("slack", ofSlack(challenge))).toEqual({ status: 200, body: "3eZbrw1aBm2r" });
    expect((await send("slack", { body: challenge, headers: JSON_TYPE })).status).toBe(401);
    expect(await send("github", pushed(fresh("delivery"), "ping"))).toEqual({ status: 200, body: "pong" });
  });

  it("a webhook that its source maps to no message is acknowledged, and logged without its payload", async () => {
    const lines = logged();
    const id = fresh("delivery");
    expect(await send("github", pushed(id, "star"))).toEqual({ status: 200, body: { ignored: true } });
    expect(lines("inbound")).toEqual([{ log: "inbound", level: "info", source: "github", type: "star", id, outcome: "ignored" }]);
    const limited = ofSlack(JSON.stringify({ type: "app_rate_limited", team_id: "T1" }));
    expect(await send("slack", limited)).toEqual({ status: 200, body: "" });
  });

  it("a webhook that does not match the schema of its message is refused (422) and logged", async () => {
    const lines = logged();
    const id = fresh("evt");
    const body = JSON.stringify({ id, type: "invoice.paid", data: { object: { id, amount_paid: "1250" } } });
    const odd = { body, headers: { ...JSON_TYPE, ...sign.stripe(body) } };
    const detail = expect.stringContaining('The webhook of the type "invoice.paid" does not match the command record-payment');
    const issues = [{ path: "payload.data.object.amount_paid", message: expect.any(String) }];
    expect(await send("stripe", odd)).toMatchObject({ status: 422, body: { code: "invalid_payload", detail, issues } });
    expect(lines("inbound")).toMatchObject([{ id, source: "stripe", outcome: "failed", code: "invalid_payload" }]);
    expect(await send("stripe", paid(id))).toMatchObject({ status: 200, body: { replayed: false } });
  });

  it.each([
    ["not JSON", "{", JSON_TYPE, 400],
    ["text", "{}", { "content-type": "text/plain" }, 415],
    ["too large", JSON.stringify({ text: "x".repeat(1024 * 1024) }), JSON_TYPE, 413],
    ["without an id", JSON.stringify({ type: "invoice.paid" }), JSON_TYPE, 422],
  ])("a webhook that is %s is refused", async (_, body, type, status) => {
    expect((await send("stripe", { body, headers: { ...type, ...sign.stripe(body) } })).status).toBe(status);
  });

  it("a webhook with JSON in a form field, the default of GitHub, is accepted, also with an Idempotency-Key", async () => {
    const id = fresh("delivery");
    const body = new URLSearchParams({ payload: JSON.stringify({ ref: "refs/heads/ü" }) }).toString();
    const headers = { ...FORM, ...sign.github(body), "x-github-event": "push", "x-github-delivery": id, "idempotency-key": "k" };
    expect(await send("github", { body, headers })).toMatchObject({ status: 200, body: { id: buildOf(id, "github") } });
    expect(await reaches(buildOf(id, "github"), "complete")).toBe("complete");
  });

  it.each(["stripe", "github"] as const)("a webhook of %s with signed JSON is not read as a form", async (source) => {
    const id = fresh("forged");
    const forged = JSON.stringify({ id, type: "invoice.paid", ref: id, data: { object: { id, amount_paid: 1 } } });
    const body = JSON.stringify({ id: fresh("evt"), type: "push", note: `&payload=${encodeURIComponent(forged)}&` });
    const headers = { ...FORM, ...sign[source](body), "x-github-event": "push", "x-github-delivery": id };
    expect(await send(source, { body, headers })).toMatchObject({ status: 415, body: { code: "unsupported_media_type" } });
    expect([...(await instances(paymentOf(id))), ...(await instances(buildOf(id, "github")))]).toEqual([]);
  });

  it("a failed instance of a webhook runs again with the sender's payload when an operator retries it", async () => {
    const id = fresh("evt");
    failAt("W06 about to record", notRetryable("The accounts are closed."), paymentOf(id));
    await send("stripe", paid(id));
    expect(await reaches(paymentOf(id), "errored")).toBe("errored");
    expect(await send("stripe", paid(id))).toMatchObject({ status: 200, body: { replayed: true } });
    await engineInstances.act(probeEnv, operator, "retry", paymentOf(id), { reason: "The accounts are open." });
    expect(await reaches(paymentOf(id), "complete")).toBe("complete");
    expect(await recordedPayments(id)).toEqual([{ amount: 1250 }]);
  });
});

it("the signature scheme of docs/inbound.md verifies a signature in base64", async () => {
  const door = millrace({
    workflows: [buildSite],
    http: {
      routes: [
        inboundRoutes([
          {
            ...{ name: "shopify", scheme: shopify, secrets: ["GITHUB_SECRET"], tenantId: "acme" },
            map: ({ type }) => ({ command: buildSite.command, payload: { ref: type } }),
          },
        ]),
      ],
    },
  }).handler as typeof handler;
  const id = fresh("event");
  const signature = (text: string) => hmac(SECRETS.GITHUB_SECRET, text).digest("base64");
  const sent = (text: string) => ({
    body: "{}",
    headers: { ...JSON_TYPE, "x-shopify-hmac-sha256": text, "x-shopify-event-id": id, "x-shopify-topic": "orders/create" },
  });
  for (const wrong of ["", "AAAA", signature("{ }")]) expect((await send("shopify", sent(wrong), {}, door)).status).toBe(401);
  const taken = { ignored: false, id: buildOf(id, "shopify"), replayed: false };
  expect(await send("shopify", sent(signature("{}")), {}, door)).toEqual({ status: 200, body: taken });
});

it("webhooks are counted by their source and outcome", async () => {
  const name = fresh("counted");
  const map: InboundSource["map"] = ({ type, body }) =>
    type === "star" ? undefined : { command: buildSite.command, payload: type === "push" ? body : {} };
  const source: InboundSource = { name, scheme: webhooks.github, secrets: ["GITHUB_SECRET"], tenantId: "acme", map };
  const door = millrace({ workflows: [buildSite], http: { routes: [inboundRoutes([source])] } }).handler as typeof handler;
  const id = fresh("delivery");
  const sent = [pushed(id), pushed(id), pushed(id), pushed(id, "star"), pushed(`${id}-2`, "fork"), { body: "{}", headers: JSON_TYPE }];
  for (const one of sent) await send(name, one, {}, door);
  await settleCounts(probeEnv);
  const { ever } = await keeperOf(probeEnv).vitals();
  const counts = Object.entries(ever.inbound_webhooks_total ?? {}).flatMap(([labels, times]) => {
    const [source, outcome] = JSON.parse(labels) as string[];
    return source === name ? [[outcome, times]] : [];
  });
  expect(Object.fromEntries(counts)).toEqual({ accepted: 1, repeated: 2, ignored: 1, failed: 1, refused: 1 });
});

describe("Webhook failures", () => {
  it.each([
    ["A01 before accept commits", 0, false],
    ["A02 accept committed, not answered", 1, true],
    ["A03 accept committed, not enqueued", 1, true],
  ] as const)("a webhook that its sender repeats after a crash at %s starts one instance", async (point, stored, replayed) => {
    const id = fresh("evt");
    dieAt(point);
    expect((await send("stripe", paid(id))).status).toBe(500);
    expect(await instances(paymentOf(id))).toHaveLength(stored);
    expect(await send("stripe", paid(id))).toMatchObject({ status: 200, body: { id: paymentOf(id), replayed } });
    await keeperRound();
    expect(await reaches(paymentOf(id), "complete")).toBe("complete");
    expect(await recordedPayments(id)).toEqual([{ amount: 1250 }]);
  });

  it("a webhook during an outage of the database gets 503, and is accepted afterwards", async () => {
    const id = fresh("evt");
    const down = () => Promise.reject(new Error("D1_ERROR: Internal error in D1 DB storage caused object to be reset."));
    const DB = new Proxy(probeEnv.DB, { get: (db, name) => (name === "batch" ? down : Reflect.get(db, name).bind(db)) });
    expect(await send("stripe", paid(id), { DB })).toMatchObject({ status: 503, body: { code: "unavailable", retryable: true } });
    expect(await instances(paymentOf(id))).toEqual([]);
    expect(await send("stripe", paid(id))).toMatchObject({ status: 200, body: { replayed: false } });
  });
});

it("a burst of 1,000 deliveries from one address, each webhook five times, starts 200 instances", async () => {
  const burst = fresh("burst");
  const ids = Array.from({ length: 200 }, (_, index) => `${burst}-${index}`);
  const deliveries = [1, 2, 3, 4, 5].flatMap(() => ids.toSorted(() => Math.random() - 0.5));
  const answers = await Promise.all(
    deliveries.map(async (id) => {
      const { body, headers } = paid(id);
      return send("stripe", { body, headers: { ...headers, "cf-connecting-ip": "192.0.2.45" } });
    }),
  );
  expect(answers.every(({ status }) => status === 200)).toBe(true);
  expect(answers.filter(({ body }) => body.replayed === false)).toHaveLength(200);
  expect(new Set(answers.map(({ body }) => body.id))).toEqual(new Set(ids.map((id) => paymentOf(id))));
  const count = () => rows("SELECT count(*) AS paid, count(DISTINCT id) AS ids FROM paid_invoices WHERE id LIKE ?1", `${burst}-%`);
  await expect.poll(count, { timeout: 50_000, interval: 200 }).toEqual([{ paid: 200, ids: 200 }]);
}, 120_000);

describe("Sources", () => {
  const source: InboundSource = {
    name: "shop",
    scheme: webhooks.github,
    secrets: ["GITHUB_SECRET"],
    tenantId: "acme",
    map: () => undefined,
  };

  it.each<[string, Partial<Record<keyof InboundSource, unknown>>]>([
    ["name", { name: "Shop/1" }],
    ["scheme", { scheme: undefined }],
    ["secrets", { secrets: [] }],
    ["secrets", { secrets: "GITHUB_SECRET" }],
    ["tenant", { tenantId: "" }],
    ["map", { map: undefined }],
    ["maxBytes", { maxBytes: 5_000_000 }],
  ])("a webhook source without a valid %s is refused when it is declared: %o", (what, wrong) => {
    expect(() => inboundRoutes([{ ...source, ...wrong } as InboundSource])).toThrow(
      expect.objectContaining({ message: expect.stringContaining(what) }),
    );
  });

  it("a webhook source with a name that is in use is refused", () => {
    expect(() => inboundRoutes([source, source])).toThrow("Two sources of webhooks have one name");
  });

  it("a webhook source can set the tenant of each webhook, publish an event, and run in a Worker with custom routes", async () => {
    const greet = defineWorkflow({ name: "greet", input: z.object({ name: z.string() }), run: async () => undefined });
    expect(app.subscribers("probe.done").event.type).toBe("probe.done");
    const { event } = app.subscribers("probe.done");
    const map: InboundSource["map"] = ({ id, headers }) => ({
      event,
      tenantId: headers.get("x-org") ?? "",
      payload: { name: id, step: "outside" },
    });
    const worker = millrace({
      workflows: [greet],
      consumers: app.consumers.filter(({ queue }) => queue.name === "probe-events" || queue.name === "probe-commands"),
      http: { routes: [inboundRoutes([{ ...source, map }])] },
      fetch: ({ url }) => new Response(`mine: ${new URL(url).pathname}`),
    });
    const id = fresh("delivery");
    const { body, headers } = pushed(id);
    const sent = { body, headers: { ...headers, "x-org": "globex" } };
    const first = await send("shop", sent, {}, worker.handler as never);
    expect(first).toMatchObject({ status: 200, body: { ignored: false, replayed: false } });
    expect(await send("shop", sent, {}, worker.handler as never)).toEqual({ ...first, body: { ...first.body, replayed: true } });
    expect(await send("shop", { body, headers }, {}, worker.handler as never)).toMatchObject({ status: 422 });
    expect(await send("other", sent, {}, worker.handler as never)).toEqual({ status: 200, body: "mine: /inbound/other" });
    const document = await worker.handler.fetch(new Request("http://shop/openapi.json"), probeEnv as never, createExecutionContext());
    const { paths, components } = await document.json<{ paths: Record<string, unknown>; components: { securitySchemes: object } }>();
    expect(paths["/inbound/shop"]).toMatchObject({ post: { operationId: "receiveShopWebhook", security: [{ "shop-signature": [] }] } });
    expect(components.securitySchemes).toMatchObject({ "shop-signature": { in: "header", name: "X-Hub-Signature-256" } });
  });
});
