import { env } from "cloudflare:workers";
import fc from "fast-check";
import { MillraceError, traces } from "millrace";
import { describe, expect, it } from "vitest";
import { createApi } from "../../../src/api/app.ts";
import { app } from "../../../src/catalog.ts";
import { postWebhook } from "../../../src/steps/post-webhook.ts";
import { checkText, isPublic } from "../../../src/systems/webhooks/address.ts";
import { checkTarget } from "../../../src/systems/webhooks/guard.ts";
import { callerWith, fresh, until } from "../../api/client.ts";
import { endpoint, receiverUrl } from "./hook.ts";
import { FINE, HOSTILE } from "./urls.ts";

/** All forms in which a browser's parser accepts an IPv4 address. */
function spellings(octets: readonly number[]): fc.Arbitrary<string> {
  const number = (value: number) =>
    fc.constantFrom(String(value), `0x${value.toString(16)}`, `0X${value.toString(16)}`, `0${value.toString(8)}`);
  const joined = (from: number) => octets.slice(from).reduce((sum, octet) => sum * 256 + octet, 0);
  return fc
    .integer({ min: 0, max: 3 })
    .chain((dotted) => fc.tuple(...octets.slice(0, dotted).map(number), number(joined(dotted))))
    .chain((parts) =>
      fc
        .record({ dot: fc.constantFrom(".", "。", "．", "｡"), tail: fc.constantFrom("", "."), wide: fc.boolean() })
        .map(({ dot, tail, wide }) => {
          const text = parts.join(dot) + tail;
          return wide ? text.replaceAll(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit))) : text;
        }),
    );
}

const privateV4 = fc.oneof(
  fc.tuple(fc.constantFrom(127, 10, 0, 224, 255), fc.nat(255), fc.nat(255), fc.nat(255)),
  fc.tuple(fc.constant(192), fc.constant(168), fc.nat(255), fc.nat(255)),
  fc.tuple(fc.constant(169), fc.constant(254), fc.nat(255), fc.nat(255)),
  fc.tuple(fc.constant(172), fc.integer({ min: 16, max: 31 }), fc.nat(255), fc.nat(255)),
);

const refusedWords = (text: string) => {
  const checked = checkText(text);
  return "refused" in checked ? checked.refused : `taken as ${checked.url.href}`;
};

describe("The address guard", () => {
  it.each(HOSTILE)("the address guard of webhooks refuses %s", (text) => {
    expect(checkText(text), text.slice(0, 100)).toEqual({ refused: expect.any(String) });
  });

  it.each(FINE)("the address guard of webhooks accepts %s", (text) => {
    expect(checkText(text)).toHaveProperty("url");
  });

  it("the address guard refuses every spelling of an address that is not public", () => {
    fc.assert(
      fc.property(
        privateV4.chain((octets) => spellings(octets)),
        fc.constantFrom("", ":443", ":8443"),
        (host, port) => {
          expect(refusedWords(`https://${host}${port}/`)).toMatch(/not public|not a URL|not understood/);
        },
      ),
      { numRuns: 500 },
    );
  });

  it("the address guard refuses every IPv6 address that contains an IPv4 address, and every one outside the public range", () => {
    const group = fc.nat(0xffff).map((value) => value.toString(16));
    const carrying = fc
      .tuple(fc.constantFrom("::ffff:", "::", "64:ff9b::", "::ffff:0:"), group, group)
      .map(([head, a, b]) => `${head}${a}:${b}`);
    const sixToFour = fc.tuple(group, group).map(([a, b]) => `2002:${a}:${b}::1`);
    const local = fc
      .tuple(fc.constantFrom("fe80", "fc00", "fd12", "fec0", "ff02", "4000", "8000"), group)
      .map(([head, a]) => `${head}::${a}`);
    fc.assert(
      fc.property(fc.oneof(carrying, sixToFour, local), (address) => {
        expect(refusedWords(`https://[${address}]/`)).toContain("not public");
        expect(isPublic(address)).toBe(false);
      }),
      { numRuns: 500 },
    );
  });

  it("the address guard's error names the setting that permits this machine, for development", () => {
    expect(checkText("http://localhost:9000/hooks")).toEqual({ refused: expect.stringContaining("WEBHOOKS_ALLOW_LOCAL=true") });
  });

  it("the address guard permits only this machine when local development is enabled", () => {
    for (const text of ["http://localhost:8788/x", "http://127.0.0.1/", "https://[::1]:9/"])
      expect(checkText(text, { local: true })).toHaveProperty("url");
    for (const text of [
      "http://10.0.0.1/",
      "https://169.254.169.254/",
      "http://example.com/",
      "ftp://localhost/",
      "http://u:p@localhost/",
      "https://a.localhost/",
    ]) {
      expect(checkText(text, { local: true }), text).toHaveProperty("refused");
    }
  });
});

describe("Host names", () => {
  const guarded = { MILLRACE_KEY: "test", WEBHOOKS_RESOLVER: `${receiverUrl}/dns-query` };

  async function named(records: { status?: number; http?: number; a?: string[]; aaaa?: string[] }): Promise<string> {
    const name = `${fresh("host")}.example.com`;
    await fetch(`${receiverUrl}/dns/${name}`, { method: "PUT", body: JSON.stringify(records) });
    return `https://${name}/hooks`;
  }

  it.each([
    { why: "IPv4 address is private", records: { a: ["10.0.0.1"] } },
    { why: "IPv6 address is private", records: { a: ["93.184.216.34"], aaaa: ["fd00::1"] } },
    { why: "IPv6 address is this machine in another notation", records: { aaaa: ["::ffff:127.0.0.1"] } },
    { why: "second address is the metadata service", records: { a: ["93.184.216.34", "169.254.169.254"] } },
    { why: "response is not an address", records: { a: ["example.org."] } },
    { why: "host does not exist", records: { status: 3 } },
    { why: "host has no address", records: {} },
  ])("a webhook's host name is refused when its $why", async ({ records }) => {
    const url = await named(records);
    expect(await checkTarget(guarded, url)).toMatchObject({ verdict: "refused" });
    const refused = await registerAt(url);
    expect(refused).toMatchObject({ status: 422, body: { code: "invalid_payload", issues: [{ path: "url" }] } });
  });

  it("host names are accepted when all their addresses are public, and when they cannot be resolved yet", async () => {
    const fine = await named({ a: ["93.184.216.34", "1.1.1.1"], aaaa: ["2606:4700:4700::1111"] });
    expect(await checkTarget(guarded, fine)).toMatchObject({ verdict: "public" });
    expect((await registerAt(fine)).status).toBe(201);
    for (const records of [{ http: 503 }, { status: 2 }]) {
      const silent = await named(records);
      expect(await checkTarget(guarded, silent)).toMatchObject({ verdict: "unknown" });
      expect((await registerAt(silent)).status).toBe(201);
    }
  });

  it("host names are resolved again before each request: no request is sent to a private address, and an unresolved name waits", async () => {
    const url = await named({ a: ["93.184.216.34"] });
    const { body, tenantId } = await registerAt(url);
    const send = () => sendTo(tenantId, body.id, fetch);
    const tellDns = (records: object) => tellOf(url, records);
    await tellDns({ a: ["127.0.0.1"] });
    const refused = await send().catch((error) => error);
    expect(refused).toMatchObject({ code: "not_retryable", message: expect.stringContaining("not public") });
    await tellDns({ http: 503 });
    const silent = await send().catch((error) => error);
    expect(silent).toBeInstanceOf(MillraceError);
    expect(silent).toMatchObject({ code: "unavailable", message: expect.stringContaining("resolver") });
  });

  it("a slow resolution of a host name does not hide a change: a delivery uses the current URL and the current secrets", async () => {
    const before = await named({ a: ["93.184.216.34"] });
    const after = await named({ a: ["1.1.1.1"] });
    const { body, tenantId, ask } = await registerAt(before);
    const left: { to: string; signatures: number }[] = [];
    const note: typeof fetch = async (to, init) => {
      left.push({ to: String(to), signatures: new Headers(init?.headers).get("webhook-signature")?.split(" ").length ?? 0 });
      return new Response(null, { status: 204 });
    };
    const changing = async (change: () => Promise<unknown>, name: string) => {
      await tellOf(name, { held: true });
      const sending = sendTo(tenantId, body.id, note);
      await until(
        async () => (await fetch(dnsOf(name))).json<{ asked: number }>(),
        ({ asked }) => asked > 0,
      );
      await change();
      await tellOf(name, { a: ["93.184.216.34"] });
      return sending;
    };
    const path = `/v1/webhooks/${body.id}`;

    await changing(async () => expect(await ask("POST", `${path}/rotate`, { overlap_seconds: 3600 })).toBe(200), before);
    expect(left).toEqual([{ to: before, signatures: 2 }]);
    await changing(async () => expect(await ask("POST", `${path}/secrets/1/end`, {})).toBe(200), before);
    expect(left.at(-1)).toEqual({ to: before, signatures: 1 });
    const changed = { version: 1, url: after, fact_types: ["outcome"] };
    await changing(async () => expect(await ask("PUT", path, changed)).toBe(200), before);
    expect(left.at(-1)).toEqual({ to: after, signatures: 1 });
    expect(await changing(async () => expect(await ask("DELETE", path)).toBe(200), after)).toMatchObject({ state: "skipped" });
    expect(left).toHaveLength(3);
  });

  const dnsOf = (url: string) => `${receiverUrl}/dns/${new URL(url).hostname}`;
  const tellOf = (url: string, records: object) => fetch(dnsOf(url), { method: "PUT", body: JSON.stringify(records) });

  /** One attempt at a delivery, in a deployment outside of development. */
  const sendTo = (tenantId: string, endpointId: string, through: typeof fetch) =>
    postWebhook.run({
      input: {
        id: "f".repeat(32),
        instance_id: "f".repeat(32),
        tenant_id: tenantId,
        endpoint_id: endpointId,
        config_version: 1,
        entity: "account/a1",
        fact_id: "f1",
        fact_type: "outcome",
        body: "{}",
        matched_at: "2026-10-01T09:30:00.000Z",
      },
      key: "k",
      signal: new AbortController().signal,
      progress: () => undefined,
      trace: { traceparent: traces.begin() },
      fetch: through,
      env: { ...env, ...guarded, WEBHOOKS_ALLOW_LOCAL: "" } as typeof env,
    });

  /** Registers an endpoint at a deployment outside of development. */
  async function registerAt(url: string) {
    const { token, tenantId } = await callerWith();
    const request = (method: string, path: string, body?: object) =>
      createApi(app).request(
        path,
        {
          method,
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
          ...(body && { body: JSON.stringify(body) }),
        },
        { ...env, ...guarded, WEBHOOKS_ALLOW_LOCAL: "" },
      );
    const response = await request("POST", "/v1/webhooks", { url, fact_types: ["outcome"] });
    const ask = async (...asked: Parameters<typeof request>) => (await request(...asked)).status;
    return { tenantId, ask, status: response.status, body: await response.json<{ id: string; code?: string }>() };
  }
});

it("a hostile URL is refused with the field and the reason, and its endpoint is unchanged", async () => {
  const caller = await callerWith();
  const { path } = await endpoint(caller);
  const before = (await caller.get(path)).body;
  for (const url of ["https://169.254.169.254/", "http://10.0.0.1/", "https://metadata.google.internal/"]) {
    const asked = [
      await caller.post("/v1/webhooks", { url, fact_types: ["outcome"] }),
      await caller.call("PUT", path, { version: 1, url, fact_types: ["outcome"] }),
    ];
    for (const { status, body } of asked) {
      expect({ status, body }).toMatchObject({
        status: 422,
        body: { code: "invalid_payload", issues: [{ path: "url", message: expect.any(String) }] },
      });
    }
  }
  expect((await caller.get(path)).body).toEqual(before);
  expect((await caller.get("/v1/webhooks")).body.items).toHaveLength(1);
});
