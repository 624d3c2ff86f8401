import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { type EngineEnv, ids } from "millrace";
import { beforeAll, describe, expect, it } from "vitest";
import after from "../../docs/examples/checkout.ts";
import before from "../../docs/examples/checkout-before.ts";
import { dieAt, fresh, happened, keeperRound, probeEnv, reaches, rows } from "../harness.ts";
import { world } from "./world.ts";

const TABLE = "CREATE TABLE IF NOT EXISTS checkouts (order_id TEXT PRIMARY KEY, charge TEXT) STRICT";

/** A buyer with an order, and the numbers of charges and mails that the simulated services executed. */
function buyer() {
  const order_id = fresh("order");
  const to = `${order_id}@example.com`;
  return {
    order_id,
    id: ids.instance("acme", "charge-order", order_id),
    request: () => new Request("https://shop.example/orders", { method: "POST", body: JSON.stringify({ order_id, cents: 900, to }) }),
    charges: async () => (await happened(`charge/${order_id}`)).length,
    mails: async () => (await happened(`mail/${to}`)).length,
    row: () => rows<{ charge: string | null }>("SELECT charge FROM checkouts WHERE order_id = ?1", order_id),
  };
}

/** Simulates the bank and the mail service. */
const services = (refuses?: (body: { to?: string }) => boolean) =>
  world<{ order_id?: string; to?: string }>(
    ["bank.example.com", "mail.example.com"],
    ({ order_id, to }) => (to ? `mail/${to}` : `charge/${order_id}`),
    refuses,
  );
const click = async (request: Request) =>
  (await after.fetch(request, probeEnv as unknown as EngineEnv, createExecutionContext())).json<{ replayed: boolean }>();

beforeAll(async () => void (await env.DB.exec(TABLE)));

describe("The checkout of docs/to-events.md", () => {
  it("in the synchronous version, a failed mail leaves the buyer without an answer, and the next click charges twice", async () => {
    const ada = buyer();
    let isDown = true;
    services(({ to }) => to !== undefined && isDown);
    await expect(before.fetch(ada.request(), probeEnv)).rejects.toThrow("answered 500");
    isDown = false;
    expect((await before.fetch(ada.request(), probeEnv)).status).toBe(201);
    expect([await ada.charges(), await ada.mails()]).toEqual([2, 1]);
  });

  it("after the conversion to events two clicks are one order, one charge and one mail", async () => {
    const ada = buyer();
    services();
    expect(await click(ada.request())).toMatchObject({ replayed: false });
    expect(await click(ada.request())).toMatchObject({ replayed: true });
    expect(await reaches(ada.id, "complete")).toBe("complete");
    await expect.poll(ada.mails, { timeout: 20_000 }).toBe(1);
    expect([await ada.charges(), await ada.row()]).toEqual([1, [{ charge: expect.any(String) }]]);
  });

  it("after the conversion to events a process that dies between the charge and its record charges once", async () => {
    const ada = buyer();
    services();
    const death = dieAt("W03 effect done, not recorded", ada.id);
    await click(ada.request());
    await expect.poll(() => death.died(), { timeout: 20_000 }).toBe(true);
    await keeperRound();
    expect(await reaches(ada.id, "complete")).toBe("complete");
    await expect.poll(ada.mails, { timeout: 20_000 }).toBe(1);
    expect(await ada.charges()).toBe(1);
  });
});
