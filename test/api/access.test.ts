import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { exportJWK, exportSPKI, generateKeyPair, SignJWT, UnsecuredJWT } from "jose";
import { describe, expect, inject, it, vi } from "vitest";
import worker from "../../src/worker.ts";
import { type Answer, callerWith, expectProblem, fresh, type Json, send } from "./client.ts";

const TEAM = "acme-team";
const ISSUER = `https://${TEAM}.cloudflareaccess.com`;
const AUDIENCE = "a".repeat(64);

type Keys = Awaited<ReturnType<typeof generateKeyPair>> & { kid: string };

async function newKeys(): Promise<Keys> {
  return { ...(await generateKeyPair("RS256", { extractable: true })), kid: fresh("kid") };
}

/** Computing the primes of a key pair takes 50 ms, so all teams share the key pairs. Each team publishes its own selection. */
const [ours, others] = await Promise.all([newKeys(), newKeys()]);

/** A team with its own keys, and a Worker that grants access to the named users. */
async function team(
  grants: (tenantId: string) => object = (tenant) => ({ "ada@example.com": { tenant, scopes: ["read", "operate", "tokens"] } }),
) {
  const url = `${inject("certsUrl")}/${fresh("team")}`;
  const tenantId = fresh("tenant");
  const publish = async (...all: Keys[]) => {
    const keys = await Promise.all(
      all.map(async ({ publicKey, kid }) => ({ ...(await exportJWK(publicKey)), kid, alg: "RS256", use: "sig" })),
    );
    await fetch(url, { method: "PUT", body: JSON.stringify({ keys }) });
  };
  const own = { ...ours, kid: fresh("kid") };
  await publish(own);
  const vars = { ACCESS_TEAM: TEAM, ACCESS_AUD: AUDIENCE, ACCESS_GRANTS: JSON.stringify(grants(tenantId)), ACCESS_CERTS_URL: url };
  const ask = (
    assertion: string | undefined,
    method = "GET",
    path = "/v1/audit",
    more: Record<string, string> = {},
    other: object = {},
    body?: object,
  ) =>
    send(
      path,
      {
        method,
        headers: {
          ...(assertion && { "cf-access-jwt-assertion": assertion }),
          ...(body && { "content-type": "application/json" }),
          ...more,
        },
        ...(body && { body: JSON.stringify(body) }),
      },
      (request) => worker.fetch?.(request as never, { ...env, ...vars, ...other } as never, createExecutionContext()) as Promise<Response>,
    );
  return { url, tenantId, own, publish, ask, asked: async () => Number(await (await fetch(url, { method: "POST" })).text()) };
}

interface Claims {
  email?: string;
  aud?: string;
  iss?: string;
  exp?: string | number;
}

function assertion(
  { privateKey, kid }: Keys,
  { email = "Ada@example.com", aud = AUDIENCE, iss = ISSUER, exp = "1h" }: Claims = {},
): Promise<string> {
  const claims = new SignJWT({ email, type: "app" }).setProtectedHeader({ alg: "RS256", kid });
  return claims.setIssuedAt().setIssuer(iss).setAudience([aud]).setExpirationTime(exp).sign(privateKey);
}

const refusedAs = (answer: Answer) => [answer.status, answer.body.code];

describe("A user admitted by Cloudflare Access", () => {
  it("an Access user is identified by their e-mail address, and their actions are audited under that address", async () => {
    const { ask, own, tenantId } = await team();
    const ada = await assertion(own);
    const name = fresh("nightly");
    const wanted = {
      cron: "0 3 * * *",
      command: { type: "research.requested", payload: { brand: "acme", keyword: "mint" } },
      reason: "hers",
    };
    // A command needs its own scope in addition.
    expectProblem(await ask(ada, "PUT", `/v1/schedules/${name}`, {}, {}, wanted), 403, "forbidden");
    expect((await ask(ada, "PUT", `/v1/brands/${name}`, {}, {}, { max_drafts: 3, reason: "hers" })).status).toBe(200);
    const { items } = (await ask(ada)).body;
    expect(items.map((row: Json) => [row.actor, row.token_id, row.scope, row.verb, row.result])).toEqual([
      ["ada@example.com", null, "operate", "settings", "applied"],
      ["ada@example.com", null, "operate", "attempt", "refused"],
    ]);
    const minted = await ask(ada, "POST", "/v1/tokens", {}, {}, { actor: "script", scopes: ["read"], reason: "hers" });
    expect(minted.status).toBe(201);
    const withToken = await send("/v1/audit", { headers: { authorization: `Bearer ${minted.body.token}` } });
    expect(withToken.body.items[0]).toMatchObject({
      verb: "mint",
      actor: "ada@example.com",
      detail: { minted_by: "access:ada@example.com" },
    });
    expect((await callerWith(["read"], tenantId)).tenantId).toBe(tenantId);
  });

  it("an Access user can be granted scopes by e-mail domain, and has no access without a grant", async () => {
    const { ask, own } = await team((tenant) => ({ "@example.com": { tenant, scopes: ["read"] } }));
    expect((await ask(await assertion(own, { email: "grace@EXAMPLE.com" }))).status).toBe(200);
    expectProblem(await ask(await assertion(own), "PUT", "/v1/brands/b", {}, {}, { max_drafts: 3 }), 403, "forbidden");
    for (const email of ["ada@example.org", "eve@sub.example.com", "example.com", ""]) {
      const { detail } = expectProblem(await ask(await assertion(own, { email })), 403, "forbidden");
      if (email.includes("@")) expect(detail).toContain(`add "${email}" or "${email.slice(email.indexOf("@"))}" to ACCESS_GRANTS`);
    }
  });

  it("an Access assertion for another audience or team, or an expired, unsigned or unknown-key one, is refused", async () => {
    const { ask, own } = await team();
    const stranger = { ...others, kid: fresh("kid") };
    const spki = new TextEncoder().encode(await exportSPKI(own.publicKey));
    const hs256 = new SignJWT({ email: "ada@example.com" }).setProtectedHeader({ alg: "HS256", kid: own.kid });
    const wrong = {
      "another application": await assertion(own, { aud: "b".repeat(64) }),
      "another team": await assertion(own, { iss: "https://evil.cloudflareaccess.com" }),
      expired: await assertion(own, { exp: Math.floor(Date.now() / 1000) - 120 }),
      "without an end": await new SignJWT({ email: "ada@example.com" })
        .setProtectedHeader({ alg: "RS256", kid: own.kid })
        .setIssuedAt()
        .setIssuer(ISSUER)
        .setAudience(AUDIENCE)
        .sign(own.privateKey),
      "alg none": new UnsecuredJWT({ email: "ada@example.com" })
        .setIssuedAt()
        .setIssuer(ISSUER)
        .setAudience(AUDIENCE)
        .setExpirationTime("1h")
        .encode(),
      "HS256 with the public key": await hs256.setIssuedAt().setIssuer(ISSUER).setAudience(AUDIENCE).setExpirationTime("1h").sign(spki),
      "an unknown key": await assertion(stranger),
      "a forged key id": await assertion({ ...stranger, kid: own.kid }),
      "no assertion": "ada@example.com",
      "a changed one": (await assertion(own)).replace(/\.[^.]+\./, `.${btoa('{"email":"eve@example.com"}').replaceAll("=", "")}.`),
    };
    for (const [what, text] of Object.entries(wrong)) expect([what, ...refusedAs(await ask(text))]).toEqual([what, 401, "unauthorized"]);
    expect((await ask(await assertion(own))).status).toBe(200);
    expect(refusedAs(await ask(undefined, "GET", "/v1/audit", { cookie: `CF_Authorization=${await assertion(own)}` }))).toEqual([
      401,
      "unauthorized",
    ]);
    expect(refusedAs(await ask(await assertion(own), "GET", "/v1/audit", { authorization: "Bearer mr_0000000000000000_x" }))).toEqual([
      401,
      "unauthorized",
    ]);
  });

  it("an Access user keeps access while keys are rotated: keys are fetched again for an unknown key only", async () => {
    const { ask, own, publish, asked } = await team();
    expect((await ask(await assertion(own))).status).toBe(200);
    for (let times = 0; times < 5; times++) expect((await ask(await assertion(own, { exp: `${times + 1}h` }))).status).toBe(200);
    expect(await asked()).toBe(1);
    const next = { ...others, kid: fresh("kid") };
    await publish(own, next);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 31_000 });
    try {
      expect((await ask(await assertion(next))).status).toBe(200);
      expect((await ask(await assertion(own))).status).toBe(200);
    } finally {
      vi.useRealTimers();
    }
    expect(await asked()).toBe(2);
  });

  it("an Access user is refused (503) while the team's keys cannot be fetched", async () => {
    const { ask, own, url } = await team();
    for (const body of ["500", "<html>", "404"]) {
      await fetch(url, { method: "PUT", body });
      expectProblem(await ask(await assertion(own)), 503, "unavailable");
    }
  });

  it("an Access user's change from a page of another origin is refused, because Access would forward it with the user's cookie", async () => {
    const { ask, own } = await team();
    const put = async (headers: Record<string, string>) =>
      (await ask(await assertion(own), "PUT", "/v1/brands/b", headers, {}, { max_drafts: 3 })).status;
    expect(await put({ "sec-fetch-site": "cross-site" })).toBe(403);
    expect(await put({ "sec-fetch-site": "same-site" })).toBe(403);
    expect(await put({ origin: "https://evil.example" })).toBe(403);
    expect(await put({ origin: "null" })).toBe(403);
    expect(await put({ "sec-fetch-site": "same-origin" })).toBe(200);
    expect(await put({ origin: "http://localhost" })).toBe(200);
  });
});

it.each([
  [{ ACCESS_AUD: undefined }, "ACCESS_AUD"],
  [{ ACCESS_TEAM: "https://acme.cloudflareaccess.com" }, "ACCESS_TEAM"],
  [{ ACCESS_GRANTS: "ada@example.com" }, "ACCESS_GRANTS"],
  [{ ACCESS_GRANTS: undefined }, "ACCESS_GRANTS"],
  [{ ACCESS_GRANTS: '{"ada":{"tenant":"acme","scopes":["read"]}}' }, '"ada"'],
  [{ ACCESS_GRANTS: '{"@x.org":{"tenant":"ACME","scopes":["read"]}}' }, "tenant"],
  [{ ACCESS_GRANTS: '{"@x.org":{"tenant":"acme","scopes":["raed"]}}' }, '"raed"'],
  [{ MILLRACE_DEVELOPMENT: undefined }, "ACCESS_CERTS_URL"],
])("an invalid Access variable is reported at startup and grants access to no user: %j", async (other, said) => {
  const { ask, own } = await team();
  const lines = vi.spyOn(console, "error").mockImplementation(() => {});
  const healthy = await ask(undefined, "GET", "/healthz", {}, other);
  const told = lines.mock.calls.map(([line]) => JSON.parse(String(line)));
  lines.mockRestore();
  expect(healthy.status).toBe(200);
  expect(told).toContainEqual({ log: "config_invalid", level: "error", error: expect.stringContaining(said) });
  expectProblem(await ask(await assertion(own), "GET", "/v1/audit", {}, other), 500, "config_invalid");
  // Programs with API tokens still have access.
  const { token } = await callerWith(["read"]);
  expect((await ask(undefined, "GET", "/v1/audit", { authorization: `Bearer ${token}` }, other)).status).toBe(200);
});
