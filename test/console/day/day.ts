import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { askerOf } from "../../../packages/millrace/cli/api-client.ts";
import { startEngine } from "../../../packages/millrace/cli/local/engine-process.ts";
import { freePort } from "../../../packages/millrace/cli/local/ports.ts";
import { signInLink } from "../../../packages/millrace/cli/local/token.ts";
import { REFUSED, startOutside } from "./outside.ts";

interface Order {
  order: string;
  to: string;
  pieces?: number;
}
interface Listed {
  items: { status: string; waiting_for: object[]; retrying: object | null }[];
}

const order = (number: number, pieces: number): Order => ({ order: `order-${number}`, to: "12 Mill Lane", pieces });
/** The orders whose booking the courier refuses at first. */
const FAILED = Array.from({ length: 20 }, (_, at) => order(at + 1, at + 1));
/** The order of 400 pieces, which need an approval. */
const LARGE = order(21, 400);
/** The order whose mail gets no response. */
const LOST = order(22, 2);
const WELL = Array.from({ length: 12 }, (_, at) => order(101 + at, 1 + (at % 7)));

/**
 * Starts an engine and simulates a shop's day: 20 failures of one cause, an approval, an unknown outcome, dead letters of three causes, a
 * blocked lane, a parcel in each kind of wait, and 12 complete orders. Returns the link that signs a browser in.
 */
export async function dayLink(): Promise<string> {
  const outside = await startOutside();
  onTestFinished(() => outside.stop());
  const folder = mkdtempSync(join(tmpdir(), "millrace-day-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const secrets = join(folder, "secrets");
  writeFileSync(secrets, "MILLRACE_KEY=test\n");
  const vars = { OUTSIDE_URL: outside.url, DEPOT_URL: outside.url };
  const config = join(import.meta.dirname, "wrangler.jsonc");
  const engine = await startEngine({ folder, port: await freePort(), secrets, vars, config });
  onTestFinished(() => engine.stop());

  const ask = askerOf(engine.url, engine.token);
  const enqueue = (commands: object[]) => ask("POST", "/v1/commands/batch", { commands });
  const ship = (orders: readonly Order[]) => enqueue(orders.map((payload) => ({ type: "order.ship", payload })));
  const address = (customer: string, change: number) => ({
    type: "address.change",
    payload: { customer, change, address: `${change} Mill Lane` },
  });
  const list = async (path: string) => (await ask<Listed>("GET", path)).items;
  /** The instances of a workflow, counted by status. */
  const counts = async (workflow: string) =>
    Object.fromEntries(
      Map.groupBy(await list(`/v1/instances?workflow=${workflow}&limit=50`), ({ status }) => status)
        .entries()
        .map(([status, { length }]) => [status, length]),
    );
  /** Another program sends a message to the queue. */
  async function outsider(key: string, payload: Order, type = "order.ship"): Promise<void> {
    const message = {
      ...{ schema_version: 1, message_type: type, kind: "command", source: "the old shop", tenant_id: "acme" },
      ...{ correlation_id: "old-shop", causation_id: key, idempotency_key: key, subject: key, created_at: new Date().toISOString() },
      traceparent: `00-${randomBytes(16).toString("hex")}-${randomBytes(8).toString("hex")}-01`,
      payload_inline: payload,
    };
    expect((await fetch(`${engine.url}/outsider`, { method: "POST", body: JSON.stringify(message) })).status).toBe(204);
  }

  await Promise.all([
    ship([...FAILED, LARGE]),
    enqueue([
      ...[1, 2, 3].map((number) => ({ type: "parcel.follow", payload: { parcel: `parcel-${number}`, signed: number === 3 } })),
      ...[1, 2, 3].map((change) => address(REFUSED, change)),
      address("ada", 1),
    ]),
    ...[1, 2, 3].map((number) => outsider(`old-${number}`, { order: `old-${number}`, to: "12 Mill Lane" })),
    ...[4, 5].map((number) => outsider(`old-${number}`, order(number, 3), "order.shp")),
  ]);
  await expect.poll(() => counts("ship-order")).toEqual({ errored: FAILED.length, waiting: 1 });
  // A used key with another payload.
  await outsider("order-1", { ...order(1, 7) });
  await expect.poll(async () => (await list("/v1/dead-letters/causes")).length).toBe(3);
  await expect.poll(async () => (await list("/v1/lanes")).length).toBe(1);
  const parcels = () => list("/v1/instances?workflow=follow-parcel");
  const standing = async () => (await parcels()).filter((one) => one.waiting_for.length > 0 || one.retrying).length;
  await expect.poll(standing).toBe(2);

  outside.letBook(true);
  outside.loseAnswer(LOST.order);
  await ship([LOST, ...WELL]);
  await expect.poll(() => counts("ship-order")).toEqual({ errored: FAILED.length, waiting: 1, in_doubt: 1, complete: WELL.length });
  return signInLink(engine.url, engine.token);
}
