/** Workers similar to public starter templates: their files, rewritten for this project. */
export interface Shape {
  title: string;
  files: Record<string, string>;
  /** False if the source has a form that `init` does not edit. */
  isEdited?: boolean;
}

const D1_ID = "0f3c2a51-6d1b-4b8e-9a57-2f4f0c9d7e10";

export const SHAPES: readonly Shape[] = [
  {
    title: "a hello-world in TypeScript with a wrangler.jsonc that ends with blocks of comments",
    files: {
      "wrangler.jsonc": `/**
 * The configuration of this Worker.
 * See the documentation of wrangler.
 */
{
	"$schema": "node_modules/wrangler/config-schema.json",
	"name": "hello",
	"main": "src/index.ts",
	"compatibility_date": "2026-10-01",
	"observability": {
		"enabled": true
	}
	/**
	 * Placement near a backend.
	 */
	// "placement": { "mode": "smart" }

	/**
	 * Variables, and not secrets.
	 */
	// "vars": { "MY_VARIABLE": "production_value" }
}
`,
      "src/index.ts": `/**
 * Welcome to the first Worker.
 */
interface Env {}

export default {
	async fetch(request, env, ctx): Promise<Response> {
		return new Response("Hello World!");
	},
} satisfies ExportedHandler<Env>;
`,
    },
  },
  {
    title: "a Hono app with a comment after a line and a trailing comma",
    files: {
      "wrangler.jsonc": `{
  "name": "hono-app",
  "main": "src/index.ts",
  "compatibility_date": "2026-10-01", // of the day it was made
  // "compatibility_flags": [ "nodejs_compat" ],
  // "kv_namespaces": [ { "binding": "KV", "id": "…" } ],
  "vars": { "GREETING": "Hello" },
}
`,
      "src/index.ts": `import { Hono } from 'hono'

type Bindings = { GREETING: string }

const app = new Hono<{ Bindings: Bindings }>()

app.get('/', (c) => c.text(c.env.GREETING))

export default app
`,
    },
  },
  {
    title: "an API with its own database under another name",
    files: {
      "wrangler.jsonc": `{
  "name": "tasks-api",
  "main": "src/index.ts",
  "compatibility_date": "2025-03-01",
  "compatibility_flags": ["nodejs_compat"],
  "triggers": { "crons": ["0 3 * * *"] },
  "d1_databases": [
    // The tasks.
    { "binding": "TASKS", "database_name": "tasks", "database_id": "${D1_ID}" }
  ]
}
`,
      "migrations/0001_tasks.sql": "CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT NOT NULL);\n",
      "src/index.ts": `import { Hono } from "hono";

interface Env {
  TASKS: D1Database;
}

const api = new Hono<{ Bindings: Env }>();
api.get("/tasks", async (c) => c.json((await c.env.TASKS.prepare("SELECT * FROM tasks").all()).results));

const worker = {
  fetch: api.fetch,
  async scheduled(_controller: ScheduledController, env: Env) {
    await env.TASKS.prepare("DELETE FROM tasks").run();
  },
};

export default worker;
`,
    },
  },
  {
    title: "a Workflow and a Durable Object, with migrations",
    files: {
      "wrangler.jsonc": `{
  "name": "steps",
  "main": "src/index.ts",
  "compatibility_date": "2026-10-01",
  "workflows": [{ "name": "orders", "binding": "ORDERS", "class_name": "Orders" }],
  "durable_objects": {
    "bindings": [{ "name": "ROOM", "class_name": "Room" }]
  },
  "migrations": [
    { "tag": "v1", "new_sqlite_classes": ["Room"] } // the room
  ]
}
`,
      "src/index.ts": `import { DurableObject, WorkflowEntrypoint, type WorkflowEvent, type WorkflowStep } from "cloudflare:workers";

interface Env {
  ORDERS: Workflow;
  ROOM: DurableObjectNamespace;
}

export class Room extends DurableObject {}

export class Orders extends WorkflowEntrypoint<Env> {
  override async run(_event: WorkflowEvent<unknown>, step: WorkflowStep) {
    await step.do("ship", async () => ({ shipped: true }));
  }
}

export default {
  async fetch(_request: Request, env: Env): Promise<Response> {
    const instance = await env.ORDERS.create();
    return Response.json({ id: instance.id });
  },
};
`,
    },
  },
  {
    title: "a queue's consumer with a wrangler.toml",
    files: {
      "wrangler.toml": `name = "jobs"
main = "src/index.ts"
compatibility_date = "2026-10-01"
compatibility_flags = [
  "nodejs_compat", # node
]

# The jobs that wait.
[[queues.producers]]
queue = "jobs"
binding = "JOBS"

[[queues.consumers]]
queue = "jobs"
max_batch_size = 5

[triggers]
crons = ["0 * * * *"] # each hour
`,
      "src/index.ts": `interface Env {
  JOBS: Queue<{ id: number }>;
}

export default {
  async fetch(request: Request, env: Env) {
    await env.JOBS.send({ id: Number(new URL(request.url).searchParams.get("id")) });
    return new Response("ok");
  },
  async queue(batch: MessageBatch<{ id: number }>) {
    for (const message of batch.messages) this.done(message.body.id);
  },
  async scheduled() {
    console.log("an hour");
  },
  done(id: number) {
    console.log(id);
  },
};
`,
    },
  },
  {
    title: "a site of React and Vite with a Worker",
    files: {
      "wrangler.jsonc": `{
  "name": "site",
  "main": "worker/index.ts",
  "compatibility_date": "2026-10-01",
  "assets": { "directory": "dist/client", "not_found_handling": "single-page-application" }
}
`,
      "vite.config.ts": "export default {};\n",
      "dist/client/index.html": "<h1>A site</h1>\n",
      "worker/index.ts": `export default {
  fetch(request) {
    const url = new URL(request.url);
    if (url.pathname.startsWith("/api/")) return Response.json({ name: "Cloudflare" });
    return new Response(null, { status: 404 });
  },
} satisfies ExportedHandler;
`,
    },
  },
  {
    title: "a wrangler.toml with environments and inline tables",
    files: {
      "wrangler.toml": `name = "shop"
main = "index.ts"
compatibility_date = "2026-10-01"
compatibility_flags = ["nodejs_compat"]

[vars]
STAGE = "dev"

[env.staging]
vars = { STAGE = "staging" }

[[env.staging.d1_databases]]
binding = "DB"
database_name = "shop-staging"
database_id = "${D1_ID}"
`,
      "index.ts": `import { Hono } from "hono";
export const app = new Hono();
app.get("/", (c) => c.text("the shop"));
export default app;
`,
    },
  },
  {
    title: "a class as the default export",
    isEdited: false,
    files: {
      "wrangler.json": `{ "name": "rpc", "main": "src/index.ts", "compatibility_date": "2026-10-01" }\n`,
      "src/index.ts": `import { WorkerEntrypoint } from "cloudflare:workers";
export default class extends WorkerEntrypoint {
  override fetch() {
    return new Response("rpc");
  }
}
`,
    },
  },
  {
    title: "a handler imported from another file",
    isEdited: false,
    files: {
      "wrangler.jsonc": `{ "name": "again", "main": "src/index.ts", "compatibility_date": "2026-10-01" }\n`,
      "src/app.ts": `export const helper = 1;
export default { fetch: () => new Response("app") };
`,
      "src/index.ts": `export { default, helper } from "./app";
`,
    },
  },
  {
    title: "a wrapped handler",
    isEdited: false,
    files: {
      "wrangler.jsonc": `{ "name": "wrapped", "main": "src/index.ts", "compatibility_date": "2026-10-01" }\n`,
      "src/index.ts": `const wrap = <T>(handler: T): T => handler;
export default wrap({
  fetch: () => new Response("wrapped"),
});
`,
    },
  },
  {
    title: "handlers that the engine does not have, and variables with the engine's names",
    files: {
      "wrangler.jsonc": `{ "name": "mail", "main": "src/index.ts", "compatibility_date": "2026-10-01" }\n`,
      "src/index.ts": `const worker = 1;
const handler = () => new Response(String(worker));
export const catalog = "mine";
export default {
  fetch: handler,
  async email(message) {
    message.setReject("no");
  },
  tail() {},
} satisfies ExportedHandler;
`,
    },
  },
  {
    title: "a handler with a declared type, CRLF line endings and a byte order mark",
    files: {
      "wrangler.toml": `\ufeffname = "typed"\r
main = "src/index.ts"\r
compatibility_date = "2026-10-01"   # keep\r
vars = { A = "1" } # one\r
compatibility_flags = [\r
  "nodejs_compat" # node\r
]\r
\r
# The next table.\r
[observability]\r
enabled = true\r
`,
      "src/index.ts": `interface Env {\r
  A: string;\r
}\r
const handler: ExportedHandler<Env> = {\r
  fetch: (_request, env) => new Response(env.A),\r
  async queue() {},\r
};\r
export default handler;\r
`,
    },
  },
  {
    title: "a multi-line string that looks like a TOML table",
    files: {
      "wrangler.toml": `name = "text"
main = "src/index.ts"
compatibility_date = "2026-10-01"

[vars]
HELP = """
[triggers]
crons = []
[vars]
"""
LAST = "1" # last
`,
      "src/index.ts": `export default { fetch: () => new Response() };
`,
    },
  },
];
