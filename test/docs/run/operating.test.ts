import { expect, it, vi } from "vitest";
import operating from "../../../docs/operating.md?raw";
import { callerWith, type Json, reaches, send } from "../../api/client.ts";
import { envelopeFor, seedApproval, seedEffect, seedInstance, seedLetter } from "../../api/seed.ts";
import { fencesOf, rowsOf } from "../markdown.ts";
import { type Curl, curlsOf } from "./curl.ts";
import { follow, readAssignments } from "./follow.ts";

const TENANT = "acme";
const shells = fencesOf(operating).filter(({ language }) => language === "sh");

/**
 * The state of the tutorial's reader before the first command, and the items that no HTTP request can create: three unknown outcomes, a
 * question and three dead letters.
 */
async function world() {
  const caller = await callerWith(["enqueue", "read", "operate", "embedded", "tokens"], TENANT);
  const doubtful = await seedInstance(TENANT, { status: "in_doubt" });
  for (const step of ["send mail", "send letter", "send parcel"]) await seedEffect(doubtful, { step });
  await seedApproval(TENANT);
  const lost = { ...envelopeFor(TENANT, "campaign-7", { brand: "acme" }), source: "shop" };
  await seedLetter(TENANT, { reason: "invalid_payload", body: lost });
  await seedLetter(TENANT, { reason: "exhausted" });
  await seedLetter(TENANT, { reason: "out_of_order" });
  const variables = new Map([
    ["URL", ""],
    ["TOKEN", caller.token],
  ]);
  readAssignments(shells[0]?.text ?? "", variables);
  return { caller, variables };
}

/** The ids that a reader would copy from a response. Each unknown outcome is resolved once, so `$KEY` iterates over the list. */
function copyIds(variables: Map<string, string>, keys: string[], { method, url }: Curl, body: Json): void {
  if (method === "POST" && url.endsWith("/v1/tokens")) variables.set("MINTED", body.id);
  const first = body?.items?.[0];
  if (method !== "GET" || !first) return;
  if (/\/v1\/instances\?/.test(url)) variables.set("ID", first.id);
  if (/\/v1\/approvals\?/.test(url)) variables.set("APPROVAL", first.id);
  if (/\/v1\/dead-letters\?/.test(url)) variables.set("LETTER", first.id);
  if (/\/v1\/dead-letters\/causes/.test(url)) variables.set("CAUSE", first.id);
  if (/\/v1\/effects\?/.test(url)) keys.push(...body.items.map(({ key }: Json) => key));
}

it("every command of docs/operating.md prints the output under it", { timeout: 90_000 }, async () => {
  const { caller, variables } = await world();
  const keys: string[] = [];
  const lookUp = (name: string) => {
    const value = name === "KEY" ? keys.shift() : variables.get(name);
    if (value === undefined) throw new Error(`No earlier text defines $${name}.`);
    return value;
  };
  const curls = shells.flatMap(({ text }) => (text.includes("curl ") ? curlsOf(text) : []));
  expect(curls.length).toBeGreaterThan(20);
  for (const curl of curls) {
    // A read that is too early is retried; a write is sent once.
    const ask = () => follow(curl, lookUp);
    const body = await (curl.method === "GET" ? vi.waitFor(ask, { timeout: 30_000, interval: 100 }) : ask());
    copyIds(variables, keys, curl, body);
    if (body?.sent) await reaches(caller, body.instance_id, "complete");
  }
});

it("docs/operating.md explains every status of an instance, and every effect class", async () => {
  const { Instance, Effect } = (await send("/openapi.json")).body.components.schemas;
  const named = (header: string) =>
    rowsOf(operating, header).flatMap(([cell = ""]) => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name));
  expect(named("status").sort()).toEqual([...Instance.properties.status.enum].sort());
  expect([...new Set(named("class"))].sort()).toEqual([...Effect.properties.class.enum, "read"].sort());
});
