import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { askerOf } from "../../packages/millrace/cli/api-client.ts";
import { groupOf } from "../../packages/millrace/cli/local/processes.ts";
import { ROOT } from "../../packages/millrace/cli/local/wrangler.ts";
import { openDemo } from "./run-demo.ts";

interface Listed<Item> {
  items: Item[];
}

/** What a demo says until it has said this. */
async function saidUntil(child: ReturnType<typeof openDemo>, last: string): Promise<string> {
  let out = "";
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    out += chunk;
    if (out.includes(last)) return out;
  }
  throw new Error(`It ended, and did not say “${last}”:\n${out}`);
}

it("the demo of the console leaves all that a console is for behind its link, goes on, and ends in good order by Ctrl-C", async () => {
  const child = openDemo("console");
  const out = await saidUntil(child, "Ctrl-C ends it");
  const [, url = "", code] = /(http:\S+)\/console#code=(\S+)/.exec(out) ?? [];
  const answer = await fetch(`${url}/console/sign-in`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  });
  const { token } = (await answer.json()) as { token: string };
  const ask = askerOf(url, token);
  const list = async <Item>(path: string) => (await ask<Listed<Item>>("GET", path)).items;

  const orders = await list<{ status: string }>("/v1/instances?workflow=ship-order&limit=200");
  const count = (status: string) => orders.filter((one) => one.status === status).length;
  expect([count("errored"), count("waiting"), count("in_doubt")]).toEqual([20, 1, 1]);
  expect(await list("/v1/instances/causes")).toEqual([
    expect.objectContaining({ workflow: "ship-order", step: "book courier", count: 20 }),
    expect.objectContaining({ workflow: "change-address", count: 1 }),
  ]);
  const parcels = await list<{ id: string; subject: string }>("/v1/instances?workflow=follow-parcel");
  const parcel = (number: number) => parcels.find(({ subject }) => subject === `parcel-${number}`);
  expect(parcel(1)).toMatchObject({ waiting_for: [{ event_type: "parcel.signed" }] });
  expect(parcel(2)).toMatchObject({ retrying: { step: "weigh parcel" } });
  expect(await ask("GET", `/v1/instances/${parcel(3)?.id}`)).toMatchObject({ sleeping: { step: "let them unpack" } });
  expect(await list("/v1/effects?state=in_doubt")).toMatchObject([{ step: "send mail" }]);
  expect(await list("/v1/approvals?state=pending")).toHaveLength(1);
  const letters = await list<{ count: number }>("/v1/dead-letters/causes");
  expect(letters.map((one) => one.count).toSorted()).toEqual([1, 2, 3]);
  expect(await list("/v1/lanes")).toMatchObject([{ lane: "customers", key: "grace", state: "held", depth: 2 }]);

  const before = count("complete");
  expect(before).toBeGreaterThanOrEqual(12);
  const shipped = () => list("/v1/instances?workflow=ship-order&status=complete&limit=200");
  await expect.poll(async () => (await shipped()).length, { timeout: 60_000 }).toBeGreaterThan(before);

  const { engine } = JSON.parse(readFileSync(join(ROOT, ".millrace/demo-console/lock"), "utf8")) as { engine: number };
  child.kill("SIGINT");
  expect(await once(child, "exit")).toEqual([0, null]);
  expect(groupOf(engine)).toEqual([]);
});
