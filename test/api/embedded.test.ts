import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { createApi } from "../../src/api/app.ts";
import { app } from "../../src/catalog.ts";
import { callerWith, expectProblem, fresh, reaches, send } from "./client.ts";

describe("/embedded", () => {
  it("/embedded returns 404 unless it is enabled", async () => {
    const { token } = await callerWith(["embedded"]);
    const ask = (EMBEDDED_CONTROL: string | undefined) =>
      createApi(app).fetch(
        new Request("http://localhost/embedded/ledger", { headers: { authorization: `Bearer ${token}` } }),
        { ...env, EMBEDDED_CONTROL },
        createExecutionContext(),
      );
    for (const value of [undefined, "", "false", "1"]) expect((await ask(value)).status).toBe(404);
    expect((await ask("true")).status).toBe(200);
  });

  it("/embedded is hidden from tokens without its scope", async () => {
    const plain = await callerWith(["enqueue", "read", "operate", "unattributed"]);
    for (const [method, path] of [
      ["GET", "/embedded/ledger"],
      ["DELETE", "/embedded/faults"],
    ] as const) {
      const refused = expectProblem(await plain.call(method, path), 404, "route_not_found");
      expect(expectProblem(await send(path, { method }), 404, "route_not_found")).toEqual(refused);
      expect(expectProblem(await send("/nothing"), 404, "route_not_found")).toEqual(refused);
    }
  });

  it("/embedded refuses an unknown or invalid query, because a misspelled filter would clear all faults", async () => {
    const caller = await callerWith(["embedded"]);
    for (const [method, path] of [
      ["DELETE", "/embedded/faults?match=x"],
      ["DELETE", "/embedded/faults?zz=%ff"],
      ["PUT", "/embedded/crm/faults?zz=1"],
      ["GET", "/embedded/ledger?match=%ff"],
      ["GET", "/embedded/ledger?match=n%00ul"],
    ] as const) {
      expectProblem(await caller.call(method, path, method === "PUT" ? [] : undefined), 422, "invalid_payload");
      expectProblem(await send(path, { method }), 404, "route_not_found");
    }
  });

  it("/embedded shows the actual effects of the embedded upstreams", async () => {
    const caller = await callerWith(["enqueue", "read", "embedded"]);
    const keyword = fresh();
    const { body } = await caller.ask(keyword);
    await reaches(caller, body.instance_id, "complete");
    const ledger = await caller.get(`/embedded/ledger?upstream=search&match=${keyword}`);
    expect(ledger.body.calls).toMatchObject([{ upstream: "search", subject: keyword, outcome: "charged" }]);
    expect(ledger.body.totals.search.charged).toBe(1);
    expectProblem(await caller.get("/embedded/ledger?upstrem=search"), 422, "invalid_payload");
  });

  it("/embedded refuses fault rules that the embedded upstreams do not support", async () => {
    const caller = await callerWith(["embedded"]);
    const put = (body: unknown) => caller.call("PUT", "/embedded/faults", body);
    expectProblem(await put({}), 422, "invalid_payload");
    expectProblem(await put("["), 400, "invalid_json");
    const problem = expectProblem(await put([{ upstream: "mail", match: "", status: 500 }]), 422, "invalid_payload");
    expect(problem.detail).toContain("upstream");
    expect((await put([])).status).toBe(204);
  });

  it("/embedded shows and controls the embedded CRM", async () => {
    const caller = await callerWith(["embedded"]);
    const email = `${fresh()}@example.com`;
    const edit = (id: string | null, properties: object | null) => caller.post("/embedded/crm/edits", { id, properties });
    const made = await edit(null, { email });
    expect(made).toMatchObject({ status: 200, body: { id: expect.any(String), properties: { email } } });
    expectProblem(await edit(null, { email }), 422, "invalid_payload");
    expect((await caller.get("/embedded/crm/contacts")).body.records).toContainEqual(made.body);
    expect((await caller.get(`/embedded/crm/calls?match=${fresh("nowhere")}`)).body).toMatchObject({ total: 0, refused_by_limit: 0 });
    expectProblem(await caller.get("/embedded/crm/secrets"), 422, "invalid_payload");
    const faults = (rules: unknown) => caller.call("PUT", "/embedded/crm/faults", rules);
    expect((await faults([{ match: "merge", status: 500, remaining: 1 }])).status).toBe(204);
    expect(expectProblem(await faults([{ status: 500, remaining: 1, upstream: "x" }]), 422, "invalid_payload").detail).toContain(
      "upstream",
    );
    expect((await faults([])).status).toBe(204);
    const plain = await callerWith(["read", "operate"]);
    expectProblem(await plain.get("/embedded/crm/contacts"), 404, "route_not_found");
  });
});
