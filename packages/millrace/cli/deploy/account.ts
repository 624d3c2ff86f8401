import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../command.ts";
import type { Project } from "../project.ts";
import { oneLine } from "../terminal.ts";
import { runProjectWrangler } from "./resources.ts";

/** Maximum number of attempts at a request that Cloudflare rate-limits. */
const TRIES = 4;
/** The longest pause before a request is repeated, in seconds. */
const MOST_SECONDS = 60;

interface Answer<T> {
  success: boolean;
  result: T;
  errors?: { code: number; message: string }[];
  result_info?: { total_pages?: number; total_count?: number };
}

/** The error codes of D1, R2 and Queues if a name already exists. */
const EXISTS = [7502, 10004, 11009];
/** The error code for an account that does not have R2. */
const NO_R2 = 10042;

class ApiError extends Refusal {
  readonly status: number;
  readonly code: number;

  constructor(message: string, status: number, code: number) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** A client for the API of a Cloudflare account, which uses the login of wrangler. */
export class Account {
  readonly id: string;
  readonly #headers: Record<string, string>;
  readonly #say: (sentence: string) => void;
  readonly #stop: AbortSignal;

  private constructor(id: string, headers: Record<string, string>, say: (sentence: string) => void, stop: AbortSignal) {
    this.id = id;
    this.#headers = headers;
    this.#say = say;
    this.#stop = stop;
  }

  /** The account that wrangler would deploy a project to. Errors: a `Refusal` without a login, or if the login has several accounts. */
  static async of(project: Project, given: unknown, say: (sentence: string) => void, stop: AbortSignal): Promise<Account> {
    const headers = headersOf(await login(project));
    const id = (typeof given === "string" && given) || process.env.CLOUDFLARE_ACCOUNT_ID;
    const account = new Account(id || "", headers, say, stop);
    return id ? account : new Account(await account.#only(), headers, say, stop);
  }

  /** The result of a GET request for a path of the account. Undefined if the status is 404. */
  async find<T>(path: string, what: string): Promise<T | undefined> {
    try {
      return (await this.#ask<T>("GET", `/accounts/${this.id}${path}`, `read ${what}`)).result;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  async list<T>(path: string, what: string): Promise<T[]> {
    const all: T[] = [];
    for (let page = 1; ; page++) {
      const at = `/accounts/${this.id}${path}${path.includes("?") ? "&" : "?"}page=${page}`;
      const { result, result_info } = await this.#ask<T[]>("GET", at, `read ${what}`);
      all.push(...result);
      const { total_pages = 1, total_count } = result_info ?? {};
      // Some lists do not return total_pages. An empty page is then the end of the list.
      if (result.length === 0 || (total_count === undefined ? page >= total_pages : all.length >= total_count)) return all;
    }
  }

  /** Creates a resource. Undefined if the resource already exists. */
  async make<T>(path: string, what: string, body: object): Promise<T | undefined> {
    try {
      return (await this.#ask<T>("POST", `/accounts/${this.id}${path}`, `create ${what}`, body)).result;
    } catch (error) {
      if (error instanceof ApiError && (EXISTS.includes(error.code) || /already (exists|taken)/i.test(error.message))) return undefined;
      throw error;
    }
  }

  async query<T>(database: string, sql: string, params?: readonly unknown[]): Promise<T[]> {
    const path = `/accounts/${this.id}/d1/database/${database}/query`;
    const { result } = await this.#ask<{ results: T[] }[]>("POST", path, "query the database", { sql, ...(params && { params }) });
    return result[0]?.results ?? [];
  }

  async #only(): Promise<string> {
    const { result } = await this.#ask<{ id: string; name: string }[]>("GET", "/accounts", "list the accounts of the login");
    const [first, ...others] = result;
    if (first && others.length === 0) return first.id;
    const names = result.map(({ id, name }) => `${id} (${oneLine(name)})`).join(", ");
    throw new Refusal(
      result.length === 0
        ? 'The login has no account. Add "account_id" to the configuration.'
        : `The login has ${result.length} accounts: ${names}. Add "account_id" to the configuration, or set CLOUDFLARE_ACCOUNT_ID.`,
    );
  }

  async #ask<T>(method: string, path: string, doing: string, body?: object): Promise<Answer<T>> {
    for (let tried = 1; ; tried++) {
      const response = await this.#fetch(method, path, body).catch((error: unknown) => {
        this.#stop.throwIfAborted();
        const why = error instanceof Error ? `${error.message}${error.cause instanceof Error ? ` (${error.cause.message})` : ""}` : error;
        throw new Refusal(`Cannot ${doing}: Cloudflare's API does not answer: ${why}.`);
      });
      const answer = (await response.json().catch(() => undefined)) as Answer<T> | undefined;
      if (response.ok && answer?.success) return answer;
      if (response.ok && answer === undefined)
        throw new Refusal(
          `Cannot ${doing}: ${new URL(response.url).origin} answers ${response.status} without JSON, as a proxy or a captive portal does.`,
        );
      const seconds = secondsOf(response.headers.get("retry-after")) ?? 2 ** tried;
      const isLimited = response.status === 429;
      if (isLimited && tried < TRIES && seconds <= MOST_SECONDS) {
        this.#say(`Cloudflare limits requests. Waiting ${seconds} s …`);
        await sleep(seconds * 1000, undefined, { signal: this.#stop });
        continue;
      }
      const [{ code, message } = { code: response.status, message: "no reason was given" }] = answer?.errors ?? [];
      const { status } = response;
      throw new ApiError(refusalOf({ doing, status, code, reason: `${oneLine(message)} (code ${code})`, seconds }), status, code);
    }
  }

  #fetch(method: string, path: string, body: object | undefined): Promise<Response> {
    const base = process.env.CLOUDFLARE_API_BASE_URL ?? "https://api.cloudflare.com/client/v4";
    return fetch(`${base}${path}`, {
      method,
      headers: { ...this.#headers, "content-type": "application/json" },
      signal: AbortSignal.any([this.#stop, AbortSignal.timeout(60_000)]),
      ...(body && { body: JSON.stringify(body) }),
    });
  }
}

/** The seconds of a `retry-after`: a number or a date. Undefined for other text. */
function secondsOf(text: string | null): number | undefined {
  const seconds = text === null ? Number.NaN : /^\d+$/.test(text) ? Number(text) : Math.ceil((Date.parse(text) - Date.now()) / 1000);
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

interface Reason {
  doing: string;
  status: number;
  code: number;
  reason: string;
  seconds: number;
}

function refusalOf({ doing, status, code, reason, seconds }: Reason): string {
  const said = `Cloudflare refuses to ${doing}: ${reason}.`;
  if (code === NO_R2) return `${said} Enable R2 in the account: https://dash.cloudflare.com/?to=/:account/r2`;
  if (status === 429) return `${said} It limits requests: wait ${seconds} s.`;
  if (status === 401) return `${said} The login is not valid. Log in: npx wrangler login`;
  if (status === 403 && doing.includes("queue"))
    return `${said} Millrace needs the Workers Paid plan, and a login that may edit Queues: https://dash.cloudflare.com/?to=/:account/workers/plans`;
  if (status === 403) return `${said} The login lacks this permission. Log in again with all of them: npx wrangler login`;
  return said;
}

interface Login {
  type: string;
  token?: string;
  key?: string;
  email?: string;
}

async function login(project: Project): Promise<Login> {
  const said = await runProjectWrangler(project, "read the login", ["auth", "token", "--json"]).catch((error: unknown) => {
    if (!(error instanceof Refusal) || !/\bnot logged in\b/i.test(error.message)) throw error;
    const how = "Run: npx wrangler login. In CI, set CLOUDFLARE_API_TOKEN instead.";
    throw new Refusal(`You are not logged in to Cloudflare. ${how} (${error.message})`);
  });
  try {
    return JSON.parse(said.slice(said.indexOf("{"))) as Login;
  } catch {
    throw new Refusal("Could not read the login: `wrangler auth token --json` does not answer with JSON.");
  }
}

function headersOf({ type, token = "", key = "", email = "" }: Login): Record<string, string> {
  return type === "api_key" ? { "x-auth-key": key, "x-auth-email": email } : { authorization: `Bearer ${token}` };
}
