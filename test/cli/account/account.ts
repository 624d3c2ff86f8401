import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { DatabaseSync } from "node:sqlite";
import { onTestFinished } from "vitest";

/** A request that the account API received. */
export interface Asked {
  method: string;
  /** The path below the account, without the query: `/queues`. */
  path: string;
  account: string | undefined;
  /** 1 for the first request since the last `reset`. */
  number: number;
}

/** The response to a request that is refused. */
export interface Refused {
  status: number;
  code: number;
  message: string;
  retryAfter?: number | string;
  /** A text instead of the response. */
  page?: string;
}

interface Binding {
  type: string;
  name: string;
  text?: string;
  [other: string]: unknown;
}

export interface Script {
  bindings: Map<string, Binding>;
  secrets: Map<string, string>;
  versions: number;
  crons: unknown[];
}

interface Answer {
  result?: unknown;
  info?: object;
  refused?: Refused;
}

const missing = (code: number, message: string): Answer => ({ refused: { status: 404, code, message } });

/** The routes of Cloudflare's account API that wrangler 4.156.2 and the command line use, with an account in memory. */
export class Account {
  readonly databases = new Map<string, { uuid: string; location: string | undefined; sqlite: DatabaseSync }>();
  readonly buckets = new Set<string>();
  readonly queues = new Map<string, { consumers: Record<string, unknown>[] }>();
  readonly workflows = new Map<string, Record<string, unknown>>();
  readonly scripts = new Map<string, Script>();
  asked: Asked[] = [];
  /** Requests to routes that are missing here. */
  readonly unknown: string[] = [];
  /** Refuses requests. */
  refuse: (asked: Asked) => Refused | undefined = () => undefined;
  /** Runs after a request had its effect and before the response. */
  before: (asked: Asked) => void | Promise<void> = () => undefined;
  url = "";

  async start(): Promise<this> {
    const server: Server = createServer((request, response) => {
      void this.#answer(request).then(({ status, headers, body }) => {
        response.writeHead(status, { "content-type": "application/json", ...headers });
        response.end(body);
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return this;
  }

  /** The environment variables with which wrangler calls this account. */
  get env(): Record<string, string> {
    return { CLOUDFLARE_API_BASE_URL: this.url, CLOUDFLARE_API_TOKEN: "none", CLOUDFLARE_ACCOUNT_ID: "acc" };
  }

  reset(): void {
    this.asked = [];
  }

  async #answer(request: IncomingMessage): Promise<{ status: number; headers: Record<string, string>; body: string }> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const url = new URL(request.url ?? "/", this.url);
    const method = request.method ?? "GET";
    const worker = /^\/worker\/([^/]+)\/healthz$/.exec(url.pathname)?.[1];
    if (worker !== undefined) return this.#health(worker);
    const [prefix = "", , account] = /^\/(client\/v4\/)?(?:accounts\/([^/]+))?/.exec(url.pathname) ?? [];
    const path = url.pathname.slice(prefix.length);
    const asked = { method, path, account, number: this.asked.length + 1 };
    this.asked.push(asked);
    const type = request.headers["content-type"] ?? "";
    const body = type.includes("multipart")
      ? await new Response(Buffer.concat(chunks), { headers: { "content-type": type } }).formData()
      : Buffer.concat(chunks).toString();
    const refused = this.refuse(asked);
    const answer = refused ? { refused } : this.#route(method, path, url.searchParams, body);
    await this.before(asked);
    const wrong = answer.refused;
    return {
      status: wrong?.status ?? 200,
      headers: wrong?.retryAfter === undefined ? {} : { "retry-after": String(wrong.retryAfter) },
      body:
        wrong?.page ??
        JSON.stringify({
          success: !wrong,
          result: answer.result ?? null,
          errors: wrong ? [{ code: wrong.code, message: wrong.message }] : [],
          messages: [],
          result_info: answer.info ?? {},
        }),
    };
  }

  #route(method: string, path: string, query: URLSearchParams, body: string | FormData): Answer {
    const [kind = "", ...rest] = path.split("/").filter(Boolean);
    const json = () => JSON.parse(String(body)) as Record<string, unknown>;
    if (kind === "memberships" || kind === "accounts") return { result: [{ id: "acc", name: "acc", account: { id: "acc", name: "acc" } }] };
    if (kind === "d1") return this.#d1(method, rest, query, json);
    if (kind === "r2") return this.#r2(method, rest.slice(1), json);
    if (kind === "queues") return this.#queues(method, rest, query, json);
    if (kind === "workflows") return this.#workflows(method, rest, json);
    if (kind === "workers") return this.#workers(method, rest, body);
    this.unknown.push(`${method} ${path}`);
    return missing(7003, `No route for ${method} ${path}.`);
  }

  #d1(method: string, [, id, query]: string[], search: URLSearchParams, json: () => Record<string, unknown>): Answer {
    if (id === undefined && method === "POST") {
      const { name, primary_location_hint } = json() as { name: string; primary_location_hint?: string };
      if (this.databases.has(name)) return { refused: { status: 400, code: 7502, message: `A database named '${name}' already exists.` } };
      const database = { uuid: randomUUID(), location: primary_location_hint, sqlite: new DatabaseSync(":memory:") };
      this.databases.set(name, database);
      return { result: { uuid: database.uuid, name } };
    }
    const all = [...this.databases].map(([name, { uuid }]) => ({ name, uuid }));
    if (id === undefined) {
      const found = all.filter(({ name }) => name.includes(search.get("name") ?? ""));
      const [page, size] = [Number(search.get("page") ?? 1), Number(search.get("per_page") ?? 100)];
      const result = found.slice((page - 1) * size, page * size);
      // As documented, this list has no total_pages.
      return { result, info: { page, per_page: size, count: result.length, total_count: found.length } };
    }
    const found = all.find(({ name, uuid }) => name === id || uuid === id);
    const database = found && this.databases.get(found.name);
    if (!database) return missing(7404, `The database ${id} could not be found.`);
    return query === "query" ? ran(database.sqlite, json() as { sql: string; params?: string[] }) : { result: found };
  }

  #r2(method: string, [name]: string[], json: () => Record<string, unknown>): Answer {
    if (method === "POST") {
      const { name: made } = json() as { name: string };
      if (this.buckets.has(made))
        return { refused: { status: 409, code: 10004, message: "The bucket you tried to create already exists." } };
      this.buckets.add(made);
      return { result: { name: made } };
    }
    if (name === undefined) return { result: { buckets: [...this.buckets].map((one) => ({ name: one })) } };
    return this.buckets.has(name) ? { result: { name } } : missing(10006, "The specified bucket does not exist.");
  }

  #queues(method: string, [id, part]: string[], search: URLSearchParams, json: () => Record<string, unknown>): Answer {
    const shown = (name: string) => ({ queue_id: name, queue_name: name, producers: [], ...this.queues.get(name) });
    if (id === undefined && method === "POST") {
      const { queue_name } = json() as { queue_name: string };
      if (this.queues.has(queue_name))
        return { refused: { status: 409, code: 11009, message: `Queue name '${queue_name}' is already taken.` } };
      this.queues.set(queue_name, { consumers: [] });
      return { result: shown(queue_name) };
    }
    if (id === undefined) {
      const names = search.getAll("name");
      const all = [...this.queues.keys()].filter((name) => names.length === 0 || names.includes(name)).map(shown);
      const [page, size] = [Number(search.get("page") ?? 1), 100];
      const result = all.slice((page - 1) * size, page * size);
      return {
        result,
        info: { page, per_page: size, count: result.length, total_count: all.length, total_pages: Math.ceil(all.length / size) },
      };
    }
    const queue = this.queues.get(id);
    if (!queue) return missing(11000, `Queue ${id} does not exist.`);
    if (part !== "consumers") return { result: shown(id) };
    if (method === "POST" || method === "PUT") {
      const { script_name, ...others } = json();
      const owner = queue.consumers[0]?.script;
      if (owner !== undefined && owner !== script_name)
        return { refused: { status: 409, code: 11004, message: `Queue ${id} already has a consumer.` } };
      const consumer = { ...others, script: script_name, service: script_name, consumer_id: "one" };
      queue.consumers = [consumer];
      return { result: consumer };
    }
    return { result: queue.consumers };
  }

  #workflows(method: string, [name = ""]: string[], json: () => Record<string, unknown>): Answer {
    if (method === "PUT") this.workflows.set(name, json());
    return this.workflows.has(name) ? { result: { id: name, name, ...this.workflows.get(name) } } : missing(10200, "workflow.not_found");
  }

  #workers(method: string, [kind, name = "", part]: string[], body: string | FormData): Answer {
    if (kind === "subdomain") return { result: { subdomain: "me" } };
    const script = this.scripts.get(name);
    if (kind === "scripts" && part === undefined && method === "PUT") return this.#upload(name, body as FormData);
    if (!script) return missing(10007, "This Worker does not exist on your account.");
    if (kind === "services") return { result: { id: name, default_environment: { script: { id: name, last_deployed_from: "wrangler" } } } };
    if (kind === "workers")
      return {
        result: { id: name, name, subdomain: { enabled: true, previews_enabled: false }, observability: { enabled: true }, urls: [] },
      };
    if (part === "secrets") return { result: [...script.secrets.keys()].map((one) => ({ name: one, type: "secret_text" })) };
    if (part === "schedules" && method === "PUT") script.crons = JSON.parse(String(body)) as unknown[];
    if (part === "schedules") return { result: { schedules: script.crons } };
    if (part === "subdomain") return { result: { enabled: true, previews_enabled: false } };
    if (part === "deployments")
      return { result: { deployments: [{ id: "d", versions: [{ version_id: `v${script.versions}`, percentage: 100 }] }] } };
    const secrets = [...script.secrets.keys()].map((one) => ({ name: one, type: "secret_text" }));
    if (part === "settings")
      return { result: { bindings: [...[...script.bindings.values()].filter((one) => one.type !== "inherit"), ...secrets] } };
    return { result: { id: name } };
  }

  /** Accepts a version of a Worker if all its bound resources exist. */
  #upload(name: string, form: FormData): Answer {
    const metadata = JSON.parse(String(form.get("metadata"))) as { bindings: Binding[] };
    const known = this.scripts.get(name);
    const bindings = new Map<string, Binding>();
    const secrets = new Map(known?.secrets);
    for (const binding of metadata.bindings) {
      const refused = this.#lacks(binding, known);
      if (refused) return { refused };
      if (binding.type === "secret_text") secrets.set(binding.name, binding.text ?? "");
      else if (binding.type !== "inherit") bindings.set(binding.name, binding);
      else if (known?.bindings.has(binding.name)) bindings.set(binding.name, known.bindings.get(binding.name) as Binding);
    }
    const versions = (known?.versions ?? 0) + 1;
    this.scripts.set(name, { bindings, secrets, versions, crons: known?.crons ?? [] });
    const shown = { id: name, startup_time_ms: 10, etag: "e", deployment_id: `v${versions}`, entry_point: "worker.js" };
    return { result: { ...shown, pipeline_hash: "h", mutable_pipeline_id: "m", available_on_subdomain: true } };
  }

  #lacks(binding: Binding, known: Script | undefined): Refused | undefined {
    const { type, name } = binding;
    if (type === "inherit" && !known?.secrets.has(name) && !known?.bindings.has(name))
      return { status: 400, code: 10057, message: `inherit binding '${name}' is invalid` };
    if (type === "queue" && !this.queues.has(String(binding.queue_name)))
      return { status: 400, code: 100100, message: `Queue "${binding.queue_name}" does not exist.` };
    if (type === "d1" && ![...this.databases.values()].some(({ uuid }) => uuid === binding.id || uuid === binding.database_id))
      return { status: 400, code: 10181, message: `D1 database "${binding.id}" does not exist.` };
    return undefined;
  }

  /** The `/healthz` of a deployed Worker, as the engine returns it. */
  #health(name: string) {
    const script = this.scripts.get(name);
    const answer = (status: number, body: object) => ({ status, headers: {}, body: JSON.stringify(body) });
    if (!script) return answer(404, {});
    if (!script.secrets.has("MILLRACE_KEY")) return answer(500, { code: "config_invalid", detail: "MILLRACE_KEY is not set." });
    return answer(200, { ok: true, keeper_seconds: 1 });
  }
}

function ran(sqlite: DatabaseSync, { sql, params = [] }: { sql: string; params?: string[] }): Answer {
  try {
    if (/^\s*(SELECT|PRAGMA)/i.test(sql))
      return { result: [{ results: sqlite.prepare(sql).all(...params), success: true, meta: { duration: 1 } }] };
    if (params.length > 0) {
      sqlite.prepare(sql).all(...params);
      return { result: [{ results: [], success: true, meta: { duration: 1 } }] };
    }
    sqlite.exec(`BEGIN; ${sql.replace(/;?\s*$/, ";")} COMMIT;`);
    return { result: [{ results: [], success: true, meta: { duration: 1 } }] };
  } catch (error) {
    if (sqlite.isTransaction) sqlite.exec("ROLLBACK");
    return { refused: { status: 400, code: 7500, message: error instanceof Error ? error.message : String(error) } };
  }
}
