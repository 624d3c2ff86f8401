import { exports } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { callerWith, fresh, type Json, send } from "../api/client.ts";
import type { Asked, Learned } from "./asked.ts";
import { runTool } from "./toolbox.ts";

let document: Json;
let clients: Json;
beforeAll(async () => {
  document = (await send("/openapi.json")).body;
  clients = await runTool("client", document);
}, 240_000);

describe("The OpenAPI document in third-party tools", () => {
  it("the OpenAPI document passes a linter, with all its recommended rules", async () => {
    expect(await runTool("lint", document)).toEqual([]);
  });

  it("the OpenAPI document gives two generators types that compile in strict mode and prevent misuse", () => {
    expect(clients.found).toEqual([]);
  });

  it.each([["hey-api"], ["openapi-fetch"]])(
    "the OpenAPI document generates a client, by %s, that runs a command from end to end",
    async (name) => {
      // Loaded after the clients are generated. The path is not a literal, because they are third-party code with their own configuration.
      const { run }: { run: (asked: Asked) => Promise<Learned> } = await import(
        /* @vite-ignore */ new URL(`./programs/${name}.ts`, import.meta.url).pathname
      );
      const { token } = await callerWith();
      // User-defined names are sent and returned unchanged.
      const account = fresh("süße Käufe");
      const learned = await run({
        baseUrl: "http://localhost",
        token,
        fetch: (request) => exports.default.fetch(request),
        keywords: [fresh("tea"), fresh("coffee")],
        correlationId: fresh("job"),
        account,
      });
      const { id } = learned.instance;
      expect(learned).toMatchObject({
        instance: { workflow: "research-keyword", status: "complete", result: { verdict: "requested", research_id: id } },
        replayed: true,
        refused: expect.arrayContaining(["payload.keyword", "payload.brand"]),
        account,
        rules: [{ name: "all of them", when: [], charge: { cents: 1 } }],
      });
      expect(learned.steps).toBeGreaterThan(0);
      // At least two instances of the job: others follow from them.
      const listed = learned.pages.map(([one]) => one);
      expect(learned.pages).toEqual(listed.map((one) => [one]));
      expect(new Set(listed).size).toBe(Math.max(listed.length, 2));
      expect(listed).toContain(id);
    },
  );
});
