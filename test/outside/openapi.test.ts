import { exports } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { callerWith, fresh, type Json, research, send, until } from "../api/client.ts";
import { runTool } from "./toolbox.ts";

let document: Json;
beforeAll(async () => {
  document = (await send("/openapi.json")).body;
});

describe("The OpenAPI document, to tools that others made", () => {
  it("gives two linters nothing to say, by all the rules that each recommends", async () => {
    expect(await runTool("lint", document)).toEqual([]);
  });

  it("makes a generated client, strict in what it sends and takes, that runs a command from end to end", async () => {
    const caller = await callerWith();
    const { output } = await runTool("client", document);
    const api: Json = await import(/* @vite-ignore */ `${output}/sdk.gen.ts`);
    const { createClient }: Json = await import(/* @vite-ignore */ `${output}/client/index.ts`);
    const client = createClient({
      baseUrl: "http://localhost",
      auth: () => caller.token,
      fetch: (request: Request) => exports.default.fetch(request),
      throwOnError: true,
    });

    const accepted = await api.acceptCommand({ client, body: research(fresh("tea")), headers: { "idempotency-key": fresh() } });
    const id: string = accepted.data.instance_id;
    const ended: Json = await until(
      () => api.getInstance({ client, path: { id } }),
      ({ data }: Json) => data.status === "complete",
    );
    expect(ended.data).toMatchObject({ id, workflow: "research-keyword", status: "complete" });
    const steps = await api.listSteps({ client, path: { id } });
    expect(steps.data.items.length).toBeGreaterThan(0);

    // Names that others chose go through both ways.
    const account = fresh("süße Käufe");
    await api.putBudget({ client, path: { account }, body: { limit_cents: 100 } });
    expect((await api.getBudget({ client, path: { account } })).data).toMatchObject({ account });
    const rules = [{ name: "all of them", when: [], charge: { cents: 1 } }];
    await api.addRules({ client, body: { rules, expected_version: 0 } });
    expect((await api.getRules({ client })).data.rules).toEqual(rules);
  });
});
