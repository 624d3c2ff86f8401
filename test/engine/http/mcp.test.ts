import { createExecutionContext } from "cloudflare:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { engineRoutes } from "millrace/http";
import { type Scope, tokens } from "millrace/operate";
import { expect, it, onTestFinished } from "vitest";
import { ProbeSignal } from "../../probe/messages.ts";
import { app } from "../../probe/worker.ts";
import { fresh, probeEnv, reaches, rows } from "../harness.ts";
import { failsUntilMended } from "../lab.ts";
import { failed } from "../operate/operating.ts";
import { play, scene } from "../operate/scene.ts";

const api = engineRoutes(app, { mcp: () => import("millrace/mcp") });

async function failing(): Promise<string> {
  const { instanceId } = await failsUntilMended();
  await failed(instanceId);
  return instanceId;
}

const send = async (input: string | URL | Request, init?: RequestInit) =>
  api.fetch(new Request(input as string, init as RequestInit<CfProperties>), probeEnv, createExecutionContext());

/** The official client, connected with a token of these scopes. */
async function connected(scopes: readonly Scope[], tenantId = "acme") {
  const token = await tokens.mint(probeEnv, { tenantId, actor: "agent", scopes });
  const client = new Client({ name: "test", version: "1" });
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL("http://localhost/mcp"), { fetch: send as typeof fetch, requestInit }));
  onTestFinished(() => client.close());
  const call = async (name: string, given: Record<string, unknown> = {}) => {
    const { content, isError = false } = await client.callTool({ name, arguments: given });
    const text = (content as { text: string }[]).map((part) => part.text).join("");
    // biome-ignore lint/suspicious/noExplicitAny: tests assert the fields that they read
    return { isError, text, body: text.startsWith("{") ? (JSON.parse(text) as any) : undefined };
  };
  return { client, call, tenantId, token };
}

it("the MCP server offers read tools for the scope `read`, and action tools with a confirmation for `operate`", async () => {
  const reader = await connected(["read"]);
  const { tools } = await reader.client.listTools();
  const names = tools.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(["instances_list", "instances_show", "dead_letters_list", "audit_list"]));
  expect(tools.every(({ annotations }) => annotations?.readOnlyHint)).toBe(true);
  expect(names).not.toContain("tokens_list");
  const operator = await connected(["read", "operate"]);
  const acts = (await operator.client.listTools()).tools.filter(({ annotations }) => annotations?.readOnlyHint === false);
  expect(acts.map(({ name }) => name)).toEqual(expect.arrayContaining(["instances_retry", "instances_cancel", "dead_letters_replay"]));
  for (const { inputSchema } of acts) {
    expect(inputSchema.properties).toHaveProperty("confirmation");
    expect(inputSchema.properties).not.toHaveProperty("dry_run");
  }
});

it("an action tool of the MCP server first returns a plan, and is executed once with the confirmation of that plan", async () => {
  const { call } = await connected(["read", "operate"]);
  const id = await failing();
  const given = { id, reason: "the upstream is back" };
  const planned = await call("instances_retry", given);
  expect(planned).toMatchObject({ isError: false, body: { plan: { refused: null }, confirmation: expect.any(String) } });
  const audited = () => rows("SELECT verb, actor, reason FROM millrace_actions WHERE instance_id = ?1", id);
  expect(await audited()).toEqual([]);
  const { confirmation } = planned.body;
  expect(await call("instances_retry", { ...given, reason: "another reason", confirmation })).toMatchObject({
    isError: true,
    body: { message: expect.stringContaining("changed"), confirmation: expect.any(String) },
  });
  expect(await audited()).toEqual([]);
  expect(await call("instances_retry", { ...given, confirmation })).toMatchObject({
    isError: false,
    body: { action_id: expect.any(String) },
  });
  expect(await audited()).toEqual([{ verb: "retry", actor: "agent", reason: "the upstream is back" }]);
  await reaches(id, "errored");
});

it("a confirmed tool call with a key is executed once, however often the call is repeated", async () => {
  const { call } = await connected(["read", "operate"]);
  const its = scene();
  const id = await play(its, (step) => step.waitFor("first", ProbeSignal, { subject: its.name }));
  await reaches(id, "waiting");
  const sent = { id, type: "probe.signal", payload: { about: its.name, value: "sent" }, reason: "they called" };
  const signal = (await call("instances_signal", sent)).body;
  expect(await call("instances_signal", { ...sent, confirmation: signal.confirmation })).toMatchObject({ isError: false });
  expect(await reaches(id, "complete", "errored")).toBe("complete");
  const given = { id, reason: "once more" };
  const { confirmation } = (await call("instances_run_again", given)).body;
  const [first, second] = [
    await call("instances_run_again", { ...given, confirmation }),
    await call("instances_run_again", { ...given, confirmation }),
  ];
  expect(first.body).toMatchObject({ replayed: false });
  expect(second.body).toMatchObject({ replayed: true, instance_id: first.body.instance_id });
});

it("an argument of an MCP tool cannot lead to another route, such as to a secret", async () => {
  const { call } = await connected(["read", "operate"]);
  const answer = await call("lanes_show", { lane: "..", key: "callback-secret" });
  expect(answer).toMatchObject({ isError: true, text: expect.stringContaining('".."') });
  expect(answer.text).not.toContain("whsec_");
  expect(await call("lanes_show", { lane: "a/../b", key: "." })).toMatchObject({ isError: true, text: expect.stringContaining('".."') });
});

it("the MCP server refuses the confirmation of another token, and a changed confirmation", async () => {
  const one = await connected(["read", "operate"]);
  const other = await connected(["read", "operate"]);
  const id = await failing();
  const { confirmation } = (await one.call("instances_close", { id, reason: "r" })).body;
  for (const sent of [confirmation, `${confirmation}x`, "", "a.b"]) {
    const answer = await other.call("instances_close", { id, reason: "r", confirmation: sent });
    expect(answer).toMatchObject({ isError: true, text: expect.stringContaining("invalid") });
  }
  expect(await rows("SELECT 1 FROM millrace_actions WHERE instance_id = ?1", id)).toEqual([]);
});

it("the MCP tools return the error codes of the HTTP API, also for an instance of another tenant", async () => {
  const { call } = await connected(["read", "operate"], fresh("other"));
  const id = await failing();
  expect(await call("instances_show", { id })).toMatchObject({ isError: true, body: { code: "instance_not_found" } });
  expect(await call("instances_retry", { id, reason: "r" })).toMatchObject({ isError: true, body: { code: "instance_not_found" } });
  expect(await call("instances_list", { status: "no such status" })).toMatchObject({ isError: true });
  expect(await call("instances_list", { statuses: "errored" })).toMatchObject({ isError: true });
});

it("the MCP server needs a token, refuses requests from other origins, and is disabled by default", async () => {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  expect((await send("http://localhost/mcp", { method: "POST", headers, body })).status).toBe(401);
  const { token } = await connected(["read"]);
  const known = { ...headers, authorization: `Bearer ${token}` };
  expect((await send("http://localhost/mcp", { method: "POST", headers: { ...known, origin: "https://evil.example" }, body })).status).toBe(
    403,
  );
  expect((await send("http://localhost/mcp", { method: "POST", headers: { ...known, origin: "http://localhost" }, body })).status).toBe(
    200,
  );
  expect((await send("http://localhost/mcp", { headers: known })).status).toBe(405);
  const request = new Request("http://localhost/mcp", { method: "POST", headers: known, body });
  expect((await engineRoutes(app).fetch(request, probeEnv, createExecutionContext())).status).toBe(404);
});
