import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { ids } from "millrace";
import { instances, lanes } from "millrace/operate";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import type { LaneEnv } from "../../../packages/millrace/src/lanes/client.ts";
import { app } from "../../probe/worker.ts";
import { dieAt, expireLeases, fresh, happened, keeperRound, operator, probeEnv, reaches, rows, until } from "../harness.ts";
import { world } from "./world.ts";

type Bill = { customer: string; from: string; to: string };

/** Charges that the simulated bank refuses, such as `{customer}/pro to team`. */
const refused = new Set<string>();

/** A customer of this test only. */
function customer() {
  const name = fresh("customer");
  const subjectOf = ({ customer, from, to }: Bill) => `${customer}/${from} to ${to}`;
  world<Bill>("bank.example.com", subjectOf, (bill) => refused.has(subjectOf(bill)));
  const lane = { lane: "plans", key: name };
  return {
    name,
    async changes(...plans: string[]): Promise<void> {
      const requests = plans.map((to, n) => ({ type: "plan.change", payload: { customer: name, change: `${name}/${n}`, to } }));
      await acceptCommands(probeEnv, app, { tenantId: "acme", source: "test" }, requests);
    },
    id: (n: number) => ids.instance("acme", "change-plan", `${name}/${n}`),
    /** The customer's charges, in order. */
    billed: async () => (await happened(`${name}/`)).map(({ subject }) => subject.slice(name.length + 1)),
    plan: () => rows("SELECT plan FROM plans WHERE customer = ?1", name),
    standing: () => lanes.describe(probeEnv, operator, lane),
    /** Aborts the lane's object. */
    async die(): Promise<void> {
      const stub = (env as unknown as Required<LaneEnv>).LANES.getByName(JSON.stringify(["plans", "acme", name]));
      await runInDurableObject(stub, (_, state) => state.abort("Died.")).catch(() => undefined);
    },
  };
}

describe("The lane per customer of docs/patterns.md", () => {
  beforeAll(async () => void (await env.DB.exec("CREATE TABLE plans (customer TEXT PRIMARY KEY, plan TEXT)")));
  afterAll(async () => void (await env.DB.exec("DROP TABLE plans")));

  it("a lane per customer bills each change of plan from the plan before it, in order, although they were requested concurrently", async () => {
    const one = customer();
    await one.changes("pro", "team", "free");
    expect(await reaches(one.id(2), "complete")).toBe("complete");
    expect(await one.billed()).toEqual(["free to pro", "pro to team", "team to free"]);
    expect(await one.plan()).toEqual([{ plan: "free" }]);
  });

  it("a lane per customer delays the customer's changes after a failed change until its retry, and delays no other customer", async () => {
    const [one, other] = [customer(), customer()];
    refused.add(`${one.name}/pro to team`);
    await one.changes("pro", "team", "free");
    expect(await reaches(one.id(1), "errored")).toBe("errored");
    await other.changes("team");
    expect(await reaches(other.id(0), "complete")).toBe("complete");
    expect(await until(one.standing, ({ ahead }) => ahead[0]?.failed != null)).toMatchObject({
      depth: 1,
      ahead: [{ instance_id: one.id(1) }],
    });
    expect(await one.billed()).toEqual(["free to pro"]);
    refused.clear();
    await instances.act(probeEnv, operator, "retry", one.id(1), { reason: "The card is valid again." });
    expect(await reaches(one.id(2), "complete")).toBe("complete");
    expect(await one.billed()).toEqual(["free to pro", "pro to team", "team to free"]);
  });

  it("a lane per customer keeps the order and bills once when the lane and the running change die", async () => {
    const one = customer();
    const death = dieAt("W03 effect done, not recorded", one.id(0));
    await one.changes("pro", "team", "free");
    expect(await until(async () => death.died(), Boolean)).toBe(true);
    await one.die();
    await expireLeases(one.id(0));
    await keeperRound();
    expect(await reaches(one.id(2), "complete")).toBe("complete");
    expect(await one.billed()).toEqual(["free to pro", "pro to team", "team to free"]);
    expect(await one.plan()).toEqual([{ plan: "free" }]);
  });
});
