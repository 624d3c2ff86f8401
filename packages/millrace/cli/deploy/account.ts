import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../command.ts";
import type { Project } from "../project.ts";
import { oneLine } from "../terminal.ts";
import { runProjectWrangler } from "./wrangler.ts";

/** Most attempts at a request that Cloudflare limits. */
const TRIES = 4;
/** Longest pause before a request is repeated, in seconds. */
const MOST_SECONDS = 60;

interface Answer<T> {
  success: boolean;
  result: T;
  errors?: { code: number; message: string }[];
  result_info?: { page?: number; total_pages?: number };
}

/** A request that Cloudflare refused. */
class ApiError extends Refusal {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

/** A Cloudflare account, by the API and the login that wrangler uses. */
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

  /** The account that wrangler would deploy a project to. Errors: a `Refusal` without a login, or where the login has several accounts. */
  static async of(project: Project, given: unknown, say: (sentence: string) => void, stop: AbortSignal): Promise<Account> {
    const headers = headersOf(await login(project));
    const id = (typeof given === "string" && given) || process.env.CLOUDFLARE_ACCOUNT_ID;
    const account = new Account(id || "", headers, say, stop);
    return id ? account : new Account(await account.#only(), headers, say, stop);
  }

  /** The result of a GET below the account; undefined where it does not exist. */
  async find<T>(path: string, what: string): Promise<T | undefined> {
    try {
      return (await this.#ask<T>("GET", `/accounts/${this.id}${path}`, `read ${what}`)).result;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  /** All pages of a list. */
  async list<T>(path: string, what: string): Promise<T[]> {
    const all: T[] = [];
    for (let page = 1; ; page++) {
      const at = `/accounts/${this.id}${path}${path.includes("?") ? "&" : "?"}page=${page}`;
      const { result, result_info } = await this.#ask<T[]>("GET", at, `read ${what}`);
      all.push(...result);
      if (page >= (result_info?.total_pages ?? 1)) return all;
    }
  }

  /** Creates a resource. The answer "exists already" is a success: an earlier call created it. */
  async make(path: string, what: string, body: object): Promise<void> {
    try {
      await this.#ask("POST", `/accounts/${this.id}${path}`, `create ${what}`, body);
    } catch (error) {
      if (!(error instanceof ApiError && (error.status === 409 || /already (exists|taken)|is already/i.test(error.message)))) throw error;
    }
  }

  /** Runs one statement on a D1 database. */
  async query<T>(database: string, sql: string): Promise<T[]> {
    const path = `/accounts/${this.id}/d1/database/${database}/query`;
    const { result } = await this.#ask<{ results: T[] }[]>("POST", path, "read the database", { sql });
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
      const answer = (await response.json().catch(() => ({ success: false, result: undefined }))) as Answer<T>;
      if (response.ok && answer.success) return answer;
      const seconds = Number(response.headers.get("retry-after") ?? 2 ** tried);
      const isLimited = response.status === 429;
      if (isLimited && tried < TRIES && seconds <= MOST_SECONDS) {
        this.#say(`Cloudflare limits requests. Waiting ${seconds} s …`);
        await sleep(seconds * 1000, undefined, { signal: this.#stop });
        continue;
      }
      const [{ code, message } = { code: response.status, message: "no reason was given" }] = answer.errors ?? [];
      throw new ApiError(refusalOf(doing, response.status, `${oneLine(message)} (code ${code})`, seconds), response.status);
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

/** A refusal in a sentence with the next step. */
function refusalOf(doing: string, status: number, reason: string, seconds: number): string {
  const said = `Cloudflare refuses to ${doing}: ${reason}.`;
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
    if (!(error instanceof Refusal) || !/log ?in|logged|authenticat/i.test(error.message)) throw error;
    throw new Refusal("You are not logged in to Cloudflare. Run: npx wrangler login. In CI, set CLOUDFLARE_API_TOKEN instead.");
  });
  return JSON.parse(said.slice(said.indexOf("{"))) as Login;
}

function headersOf({ type, token = "", key = "", email = "" }: Login): Record<string, string> {
  return type === "api_key" ? { "x-auth-key": key, "x-auth-email": email } : { authorization: `Bearer ${token}` };
}
