import { html } from "hono/html";
import { answerHtml, bodies, engineProblems } from "millrace/http";
import type { Catalog } from "millrace/worker";
import * as z from "zod";
import type { ApiEnv } from "./env.ts";
import { operation } from "./operation.ts";

export const landing = [
  operation("get", "/", "showLandingPage", undefined, {
    summary: "Get the landing page",
    description: "Serves an HTML page that describes this deployment and links its other pages.",
    security: [],
    answer: { 200: { description: "A page", content: { "text/html": { schema: z.string() } } } },
    run: ({ env, catalog, context }) => answerHtml(context, "Millrace", content(catalog, addressOf(env, new URL(context.req.url)))),
  }),
];

const ON_THIS_MACHINE = new Set(["localhost", "127.0.0.1", "[::1]"]);

/**
 * The address that the landing page displays: `PUBLIC_URL`, or the request's own address on a local machine. Any other `Host` header may be
 * forged, so the page shows a placeholder in place of an address.
 */
function addressOf({ PUBLIC_URL: known }: ApiEnv["Bindings"], { hostname, origin }: URL): string {
  if (known) return known.replace(/\/+$/, "");
  return ON_THIS_MACHINE.has(hostname) ? origin : "$URL";
}

/** The app's systems, each with its first route. A test compares these routes with the OpenAPI document. */
const SYSTEMS = [
  ["Brands with agents that decide which articles to write", "GET /v1/brands/{brand}/decisions"],
  ["Articles: approval, publication, removal", "GET /v1/articles"],
  ["Questions to people", "GET /v1/approvals"],
  ["Scheduled commands", "PUT /v1/schedules/{name}"],
  ["Contacts in a CRM, both ways", "GET /v1/crm/syncs"],
  ["Facts: a ledger for each entity, and a projection across them", "POST /v1/facts"],
  ["Rules that turn outcomes into charges and payouts", "PUT /v1/qualification-rules"],
  ["Budgets that limit spending", "PUT /v1/budgets/{account}"],
  ["Contacts and their merges", "GET /v1/contacts/{id}"],
  ["Webhooks: signed deliveries of facts", "POST /v1/webhooks"],
  ["Batches: import, export and reconcile files", "POST /v1/batches"],
] as const;

/** The command in the landing page's example: the first command of the main chain. */
const FIRST_COMMAND = "research.requested";

function content({ workflows }: Catalog, origin: string) {
  const commands = workflows.map(({ on }) => on).filter(({ kind }) => kind === "command");
  const command = commands.find(({ type }) => type === FIRST_COMMAND) ?? commands[0];
  return html`<h1>Millrace</h1>
<p>This engine accepts commands, and exactly one workflow instance performs each.
<a href="/console">The console</a> shows their progress.
See <a href="/openapi.json">the routes</a> and <a href="${engineProblems.path}">the problems they answer</a>.</p>
<h2>Workflows</h2>
<table>
<thead><tr><th scope="col">Workflow</th><th scope="col">Starts on</th></tr></thead>
<tbody>
${workflows.map(({ name, on }) => html`<tr><td><code>${name}</code></td><td>${on.kind} <code>${on.type}</code></td></tr>\n`)}</tbody>
</table>
<h2>Data</h2>
<table>
<thead><tr><th scope="col">Data</th><th scope="col">First request</th></tr></thead>
<tbody>
${SYSTEMS.map(([what, route]) => html`<tr><td>${what}</td><td><code>${route}</code></td></tr>\n`)}</tbody>
</table>
${
  command &&
  html`<h2>Send a command</h2>
<pre tabindex="0"><code>curl ${origin}/v1/commands \\
  -H 'Authorization: Bearer mr_YOUR_TOKEN' \\
  -H 'Content-Type: application/json' \\
  -d '${JSON.stringify({ type: command.type, payload: example(command.payload) })}'</code></pre>
<p>The answer names the instance; <code>GET /v1/instances/{id}</code> shows its progress.</p>`
}`;
}

/** Returns an example payload with the required fields. */
function example(payload: z.ZodType): Record<string, unknown> {
  const { required = [], properties = {} } = bodies.schema(payload) as {
    required?: string[];
    properties?: Record<string, { type?: string }>;
  };
  return Object.fromEntries(required.map((name) => [name, EXAMPLES[properties[name]?.type ?? ""] ?? "example"]));
}

const EXAMPLES: Record<string, unknown> = { number: 1, integer: 1, boolean: true, array: [], object: {} };
