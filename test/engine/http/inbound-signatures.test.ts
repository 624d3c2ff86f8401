import { ids } from "millrace";
import { webhooks } from "millrace/http";
import { describe, expect, it, vi } from "vitest";
import { isSigned, mayBeSigned } from "../../../packages/millrace/src/http/webhook-schemes.ts";
import recorded from "../../contracts/signatures.json";
import { fresh, rows } from "../harness.ts";
import { JSON_TYPE, nowSeconds, paid, pushed, SECRETS, type Sent, send, sign } from "./webhook.ts";

const SCHEMES = {
  stripe: webhooks.stripe,
  github: webhooks.github,
  slack: webhooks.slack,
  standard: webhooks.standard,
  svix: webhooks.standard,
} as const;
const libraries = Object.entries(recorded).map(([name, made]) => {
  const kind = (name.startsWith("slack") ? "slack" : name) as keyof typeof SCHEMES;
  return { name, kind, made: { ...made, headers: made.headers as Record<string, string> } };
});

describe("Webhook signatures", () => {
  const verifies = (kind: keyof typeof SCHEMES, { body, headers }: Sent, secrets: string[], at: number) => {
    const spy = vi.spyOn(Date, "now").mockReturnValue(at * 1000);
    const scheme = SCHEMES[kind];
    const signed = scheme.read(new Request("http://shop", { method: "POST", headers }));
    const isPossible = mayBeSigned(signed);
    spy.mockRestore();
    const keys = secrets.map((secret) => scheme.key?.(secret) ?? new TextEncoder().encode(secret));
    return isPossible && isSigned(signed, body, keys);
  };

  it.each(libraries)(
    "a webhook signature of $made.by ($name) is accepted within five minutes, and with one of several secrets",
    async ({ kind, made }) => {
      const other = kind === "standard" || kind === "svix" ? "whsec_b3RoZXI=" : "other";
      expect(await verifies(kind, made, [made.secret], made.at)).toBe(true);
      expect(await verifies(kind, made, [other, made.secret], made.at)).toBe(true);
      expect(await verifies(kind, made, [other], made.at)).toBe(false);
      expect(await verifies(kind, { ...made, body: `${made.body} ` }, [made.secret], made.at)).toBe(false);
      for (const seconds of [-300, 300]) expect(await verifies(kind, made, [made.secret], made.at + seconds)).toBe(true);
      for (const seconds of [-301, 301]) expect(await verifies(kind, made, [made.secret], made.at + seconds)).toBe(kind === "github");
    },
  );

  it.each(libraries)(
    "a webhook signature of these tests equals the signature of $made.by ($name)",
    ({ kind, made: { body, secret, at, headers } }) => {
      const id = headers["webhook-id"] ?? headers["svix-id"];
      const prefix = kind === "svix" ? "svix" : "webhook";
      const own = kind === "standard" || kind === "svix" ? sign.standard(body, secret, at, id, prefix) : sign[kind](body, secret, at);
      expect(headers).toMatchObject(own);
    },
  );

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
  ])("a webhook signature with an invalid format is refused: %s %o", async (source, headers) => {
    const unread = { body: "{}", headers: { ...JSON_TYPE, ...headers } as Record<string, string> };
    expect(await send(source, unread)).toMatchObject({ status: 401, body: { code: "signature_invalid" } });
  });

  it("a webhook signature that is wrong, old, or of another source is refused (401), and starts nothing", async () => {
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
    const instance = ids.instance("acme", "record-payment", `stripe/${id}`);
    expect(await rows("SELECT id FROM millrace_instances WHERE id = ?1", instance)).toEqual([]);
  });

  it("a wrong webhook signature counts against the rate limit for unauthenticated requests, and a valid one does not", async () => {
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
