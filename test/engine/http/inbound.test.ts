import { createExecutionContext } from "cloudflare:test";
import { createHmac } from "node:crypto";
import { defineWorkflow, instanceId, millrace, notRetryable } from "millrace";
import { github, type InboundSource, inboundRoutes, slack, standardWebhooks, stripe } from "millrace/http";
import { retryInstance } from "millrace/operate";
import { beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import * as z from "zod";
import { isSigned, mayBeSigned } from "../../../packages/millrace/src/http/webhook-schemes.ts";
import recorded from "../../contracts/signatures.json";
import { handler } from "../../docs/examples/inbound.ts";
import { app } from "../../probe/worker.ts";
import { dieAt, failAt, fresh, keeperRound, operator, probeEnv, reaches, rows } from "../harness.ts";

const SECRETS = {
  STRIPE_SECRET: "whsec_new",
  GITHUB_SECRET: "It's a Secret",
  SLACK_SIGNING_SECRET: "8f742231b10e8888abcd99yyyzzz85a5",
  SHOP_SECRET: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
};
const JSON_TYPE = { "content-type": "application/json" };
const FORM = { "content-type": "application/x-www-form-urlencoded" };

const hmac = (key: string | Buffer, text: string) => createHmac("sha256", key).update(text);
const nowSeconds = () => Math.floor(Date.now() / 1000);

/** The headers of each sender. The first test compares them with those that the senders' own libraries made. */
const sign = {
  stripe: (body: string, secret = SECRETS.STRIPE_SECRET, at = nowSeconds()) => ({
    "stripe-signature": `t=${at},v1=${hmac(secret, `${at}.${body}`).digest("hex")}`,
  }),
  github: (body: string, secret = SECRETS.GITHUB_SECRET) => ({ "x-hub-signature-256": `sha256=${hmac(secret, body).digest("hex")}` }),
  slack: (body: string, secret = SECRETS.SLACK_SIGNING_SECRET, at = nowSeconds()) => ({
    "x-slack-request-timestamp": String(at),
    "x-slack-signature": `v0=${hmac(secret, `v0:${at}:${body}`).digest("hex")}`,
  }),
  standard: (body: string, secret = SECRETS.SHOP_SECRET, at = nowSeconds(), id = "msg_1", prefix = "webhook") => ({
    [`${prefix}-id`]: id,
    [`${prefix}-timestamp`]: String(at),
    [`${prefix}-signature`]: `v1,${hmac(Buffer.from(secret.slice("whsec_".length), "base64"), `${id}.${at}.${body}`).digest("base64")}`,
  }),
};

interface Sent {
  body: string;
  headers: Record<string, string>;
}

async function send(source: string, { body, headers }: Sent, env: object = {}, door: Pick<typeof handler, "fetch"> = handler) {
  const request = new Request(`http://shop/inbound/${source}`, { method: "POST", body, headers });
  const response = await door.fetch(request, { ...probeEnv, ...SECRETS, ...env } as never, createExecutionContext());
  const text = await response.text();
  return { status: response.status, body: text.startsWith("{") ? JSON.parse(text) : text };
}

/** Stripe's event of a paid invoice. */
function paid(id: string, invoice = id, more: object = {}) {
  const body = JSON.stringify({ id, object: "event", type: "invoice.paid", data: { object: { id: invoice, amount_paid: 1250 } }, ...more });
  return { body, headers: { ...JSON_TYPE, ...sign.stripe(body) } };
}

const pushed = (delivery: string, event = "push") => {
  const body = JSON.stringify({ ref: "refs/heads/main", pusher: { name: "Zoë" } });
  return { body, headers: { ...JSON_TYPE, ...sign.github(body), "x-github-event": event, "x-github-delivery": delivery } };
};

const ofSlack = (body: string, type: Record<string, string> = JSON_TYPE) => ({ body, headers: { ...type, ...sign.slack(body) } });
const command = (trigger_id: string, text = "main & more") =>
  ofSlack(new URLSearchParams({ command: "/build", text, trigger_id }).toString(), FORM);

function shipped(id: string, prefix = "webhook") {
  const body = JSON.stringify({ type: "invoice.paid", data: { object: { id, amount_paid: 1 } } });
  return { body, headers: { ...JSON_TYPE, ...sign.standard(body, undefined, undefined, id, prefix) } };
}

const paymentOf = (id: string, source = "stripe") => instanceId("acme", "record-payment", `${source}/${id}`);
const buildOf = (id: string, source: string) => instanceId("acme", "build-site", `${source}/${id}`);
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

const SCHEMES = { stripe, github, slack, standard: standardWebhooks, svix: standardWebhooks } as const;
const libraries = Object.entries(recorded).map(([name, made]) => {
  const kind = (name.startsWith("slack") ? "slack" : name) as keyof typeof SCHEMES;
  return { name, kind, made: { ...made, headers: made.headers as Record<string, string> } };
});

describe("a signature", () => {
  const verifies = (kind: keyof typeof SCHEMES, { body, headers }: Sent, secrets: string[], at: number) => {
    const spy = vi.spyOn(Date, "now").mockReturnValue(at * 1000);
    const scheme = SCHEMES[kind];
    const signed = scheme.read(new Request("http://shop", { method: "POST", headers }));
    const isPossible = mayBeSigned(signed);
    spy.mockRestore();
    const keys = secrets.map((secret) => scheme.key?.(secret) ?? new TextEncoder().encode(secret));
    return isPossible && isSigned(signed, body, keys);
  };

  it.each(libraries)("of $made.by ($name) is accepted within five minutes, and with one of several secrets", async ({ kind, made }) => {
    const other = kind === "standard" || kind === "svix" ? "whsec_b3RoZXI=" : "other";
    expect(await verifies(kind, made, [made.secret], made.at)).toBe(true);
    expect(await verifies(kind, made, [other, made.secret], made.at)).toBe(true);
    expect(await verifies(kind, made, [other], made.at)).toBe(false);
    expect(await verifies(kind, { ...made, body: `${made.body} ` }, [made.secret], made.at)).toBe(false);
    for (const seconds of [-300, 300]) expect(await verifies(kind, made, [made.secret], made.at + seconds)).toBe(true);
    for (const seconds of [-301, 301]) expect(await verifies(kind, made, [made.secret], made.at + seconds)).toBe(kind === "github");
  });

  it.each(libraries)("of these tests equals that of $made.by ($name)", ({ kind, made: { body, secret, at, headers } }) => {
    const id = headers["webhook-id"] ?? headers["svix-id"];
    const prefix = kind === "svix" ? "svix" : "webhook";
    const own = kind === "standard" || kind === "svix" ? sign.standard(body, secret, at, id, prefix) : sign[kind](body, secret, at);
    expect(headers).toMatchObject(own);
  });

  it.each([
    ["stripe", { "stripe-signature": "" }],
    ["stripe", { "stripe-signature": "t=,v1=00" }],
    ["stripe", { "stripe-signature": `t=${nowSeconds()},v0=${"0".repeat(64)}` }],
    ["stripe", { "stripe-signature": `t=${nowSeconds()}${`,v1=${"0".repeat(64)}`.repeat(11)}` }],
    ["github", { "x-hub-signature": `sha1=${"0".repeat(40)}` }],
    ["github", { "x-hub-signature-256": "sha256=zz" }],
    ["slack", { "x-slack-signature": `v0=${"0".repeat(64)}` }],
    ["slack", { "x-slack-signature": `v0=${"0".repeat(64)}`, "x-slack-request-timestamp": "1e9" }],
    ["shop", { "webhook-id": "1", "webhook-timestamp": String(nowSeconds()), "webhook-signature": "v1a,AAAA v1," }],
  ])("that is not well-formed is refused: %s %o", async (source, headers) => {
    const unread = { body: "{}", headers: { ...JSON_TYPE, ...headers } as Record<string, string> };
    expect(await send(source, unread)).toMatchObject({ status: 401, body: { code: "signature_invalid" } });
  });

  it("that is wrong, old, or of another source is refused (401), and starts nothing", async () => {
    const id = fresh("evt");
    const { body, headers } = paid(id);
    const refused = [
      { ...JSON_TYPE, ...sign.stripe(body, "guessed") },
      { ...JSON_TYPE, ...sign.stripe(body, undefined, nowSeconds() - 302) },
      { ...JSON_TYPE, ...sign.stripe(body, undefined, nowSeconds() + 302) },
      { ...JSON_TYPE, ...sign.stripe(body, SECRETS.GITHUB_SECRET) },
    ];
    for (const one of refused) expect(await send("stripe", { body, headers: one })).toMatchObject({ status: 401 });
    expect(await send("stripe", { body: body.replace("1250", "9250"), headers })).toMatchObject({ status: 401 });
    expect(await instances(paymentOf(id))).toEqual([]);
  });

  it("that is wrong costs its address the limit of strangers, and a valid one does not", async () => {
    const address = { "cf-connecting-ip": "192.0.2.44" };
    const env = { REQUESTS_PER_ADDRESS: 3, STRANGER_REQUESTS: undefined };
    const statuses: number[] = [];
    for (let at = 0; at < 5; at++) {
      const { body, headers } = pushed(fresh("delivery"), "star");
      statuses.push((await send("github", { body, headers: { ...headers, ...address } }, env)).status);
    }
    for (let at = 0; at < 4; at++) {
      statuses.push((await send("github", { body: "{}", headers: { ...JSON_TYPE, ...address, ...sign.github("{ }") } }, env)).status);
    }
    expect(statuses).toEqual([200, 200, 200, 200, 200, 401, 401, 401, 429]);
  });
});

describe("a webhook", () => {
  it.each([
    ["stripe", (id: string) => paid(id), paymentOf],
    ["github", (id: string) => pushed(id), buildOf],
    ["shop", (id: string) => shipped(id), paymentOf],
    ["shop", (id: string) => shipped(id, "svix"), paymentOf],
  ])("of %s becomes one instance, and its repeats get the same answer", async (source, request, idOf) => {
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

  it("of Slack that is a slash command becomes one instance, and gets an empty answer, which Slack does not show", async () => {
    const id = fresh("trigger");
    for (let sent = 0; sent < 2; sent++) expect(await send("slack", command(id))).toEqual({ status: 200, body: "" });
    expect(await reaches(buildOf(id, "slack"), "complete")).toBe("complete");
  });

  it("that the sender repeats with other fields, or another payload, is the first one", async () => {
    const id = fresh("evt");
    const first = await send("stripe", paid(id, id, { pending_webhooks: 2 }));
    expect(await send("stripe", paid(id, id, { pending_webhooks: 1 }))).toEqual({ ...first, body: { ...first.body, replayed: true } });
    expect(await send("stripe", paid(id, `${id}-other`))).toEqual({ ...first, body: { ...first.body, replayed: true } });
    expect(await reaches(paymentOf(id), "complete")).toBe("complete");
    expect([await recordedPayments(id), await recordedPayments(`${id}-other`)]).toEqual([[{ amount: 1250 }], []]);
  });

  it("signed with the secret before is accepted until that secret is removed", async () => {
    const { body } = paid(fresh("evt"));
    const old = { body, headers: { ...JSON_TYPE, ...sign.stripe(body, "whsec_old") } };
    expect((await send("stripe", old)).status).toBe(401);
    expect((await send("stripe", old, { STRIPE_SECRET_OLD: "whsec_old" })).status).toBe(200);
    // During its own rotation Stripe signs with both.
    const both = { ...sign.stripe(body, "whsec_third") };
    both["stripe-signature"] += sign.stripe(body)["stripe-signature"].replace(/^[^,]*/, "");
    expect(await send("stripe", { body, headers: { ...JSON_TYPE, ...both } })).toMatchObject({ body: { replayed: true } });
  });

  it("of a source without a secret is refused (404), and the log names the secret to set", async () => {
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

  it("that only tests the address is answered, if it is signed", async () => {
    const challenge = JSON.stringify({ type: "url_verification", challenge: "3eZbrw1aBm2r" });
    expect(await send("slack", ofSlack(challenge))).toEqual({ status: 200, body: "3eZbrw1aBm2r" });
    expect((await send("slack", { body: challenge, headers: JSON_TYPE })).status).toBe(401);
    expect(await send("github", pushed(fresh("delivery"), "ping"))).toEqual({ status: 200, body: "pong" });
  });

  it("without a message is acknowledged and logged, without its payload", async () => {
    const lines = logged();
    const id = fresh("delivery");
    expect(await send("github", pushed(id, "star"))).toEqual({ status: 200, body: { ignored: true } });
    expect(lines("inbound")).toEqual([{ log: "inbound", level: "info", source: "github", type: "star", id, outcome: "ignored" }]);
    const limited = ofSlack(JSON.stringify({ type: "app_rate_limited", team_id: "T1" }));
    expect(await send("slack", limited)).toEqual({ status: 200, body: "" });
  });

  it("that does not match the schema of its message is refused (422) and logged: the sender repeats it", async () => {
    const lines = logged();
    const id = fresh("evt");
    const body = JSON.stringify({ id, type: "invoice.paid", data: { object: { id, amount_paid: "1250" } } });
    const odd = { body, headers: { ...JSON_TYPE, ...sign.stripe(body) } };
    expect(await send("stripe", odd)).toMatchObject({ status: 422, body: { code: "invalid_payload" } });
    expect(lines("inbound")).toMatchObject([{ id, source: "stripe", outcome: "failed", code: "invalid_payload" }]);
    expect(await send("stripe", paid(id))).toMatchObject({ status: 200, body: { replayed: false } });
  });

  it.each([
    ["not JSON", "{", JSON_TYPE, 400],
    ["text", "{}", { "content-type": "text/plain" }, 415],
    ["too large", JSON.stringify({ text: "x".repeat(1024 * 1024) }), JSON_TYPE, 413],
    ["without an id", JSON.stringify({ type: "invoice.paid" }), JSON_TYPE, 422],
  ])("that is %s is refused", async (_, body, type, status) => {
    expect((await send("stripe", { body, headers: { ...type, ...sign.stripe(body) } })).status).toBe(status);
  });

  it("may be a form with JSON, as GitHub sends by default, and have an Idempotency-Key", async () => {
    const id = fresh("delivery");
    const body = new URLSearchParams({ payload: JSON.stringify({ ref: "refs/heads/ü" }) }).toString();
    const headers = { ...FORM, ...sign.github(body), "x-github-event": "push", "x-github-delivery": id, "idempotency-key": "k" };
    expect(await send("github", { body, headers })).toMatchObject({ status: 200, body: { id: buildOf(id, "github") } });
    expect(await reaches(buildOf(id, "github"), "complete")).toBe("complete");
  });

  it("whose instance failed runs again by a retry of an operator, with the payload of the sender", async () => {
    const id = fresh("evt");
    failAt("W06 about to record", notRetryable("The books are closed."), paymentOf(id));
    await send("stripe", paid(id));
    expect(await reaches(paymentOf(id), "errored")).toBe("errored");
    expect(await send("stripe", paid(id))).toMatchObject({ status: 200, body: { replayed: true } });
    await retryInstance(probeEnv, operator, paymentOf(id), { reason: "The books are open." });
    expect(await reaches(paymentOf(id), "complete")).toBe("complete");
    expect(await recordedPayments(id)).toEqual([{ amount: 1250 }]);
  });
});

describe("a webhook and a crash", () => {
  it.each([
    ["A01 before accept commits", 0, false],
    ["A02 accept committed, not answered", 1, true],
    ["A03 accept committed, not enqueued", 1, true],
  ] as const)("%s: the sender repeats it, and one instance runs", async (point, stored, replayed) => {
    const id = fresh("evt");
    dieAt(point);
    expect((await send("stripe", paid(id))).status).toBe(500);
    expect(await instances(paymentOf(id))).toHaveLength(stored);
    expect(await send("stripe", paid(id))).toMatchObject({ status: 200, body: { id: paymentOf(id), replayed } });
    await keeperRound();
    expect(await reaches(paymentOf(id), "complete")).toBe("complete");
    expect(await recordedPayments(id)).toEqual([{ amount: 1250 }]);
  });

  it("while the database is unavailable gets 503, and is accepted afterwards", async () => {
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

describe("a source", () => {
  const source: InboundSource = { name: "shop", scheme: github, secrets: ["GITHUB_SECRET"], tenantId: "acme", map: () => undefined };

  it.each<[string, Partial<Record<keyof InboundSource, unknown>>]>([
    ["name", { name: "Shop/1" }],
    ["scheme", { scheme: undefined }],
    ["secrets", { secrets: [] }],
    ["secrets", { secrets: "GITHUB_SECRET" }],
    ["tenant", { tenantId: "" }],
    ["map", { map: undefined }],
    ["maxBytes", { maxBytes: 5_000_000 }],
  ])("without a valid %s is refused when it is declared: %o", (what, wrong) => {
    expect(() => inboundRoutes([{ ...source, ...wrong } as InboundSource])).toThrow(
      expect.objectContaining({ message: expect.stringContaining(what) }),
    );
  });

  it("with the name of another source is refused", () => {
    expect(() => inboundRoutes([source, source])).toThrow("Two sources of webhooks have one name");
  });

  it("can choose the tenant of each webhook, publish an event, and stand beside routes of the Worker", async () => {
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
