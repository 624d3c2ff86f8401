// `millrace/client` calls a deployed engine from a browser, Node or another Worker. The module imports nothing.
/** A workflow's command type, payload and result, such as `typeof greet` of `defineWorkflow`. */
interface WorkflowType {
  readonly on: { readonly type: string; from(payload: never): unknown };
  readonly run: (call: never) => Promise<unknown>;
}

/** Describes a workflow without its source: `Described<"greet", { name: string }, { said: string }>`. */
export interface Described<Type extends string, Payload, Result> {
  readonly on: { readonly type: Type; from(payload: Payload): unknown };
  readonly run: (call: never) => Promise<Result>;
}

type TypeOf<Workflow extends WorkflowType> = Workflow["on"]["type"];
type Typed<Workflow extends WorkflowType, Type> = Extract<Workflow, { readonly on: { readonly type: Type } }>;
type PayloadOf<Workflow extends WorkflowType, Type> = Parameters<Typed<Workflow, Type>["on"]["from"]>[0];
type ResultOf<Workflow extends WorkflowType, Type> = Typed<Workflow, Type>["run"] extends (call: never) => Promise<infer Result>
  ? Result
  : never;

export type Fetch = (
  url: string,
  init: { method: string; headers: Record<string, string>; body?: string; signal: AbortSignal; redirect: "manual" },
) => Promise<{ readonly status: number; readonly headers: { get(name: string): string | null }; text(): Promise<string> }>;

export interface ClientOptions {
  /** The engine's origin, such as `https://orders.example.com`. Default: the origin of the page. A service binding takes any origin. */
  readonly url?: string | undefined;
  /** A token `mr_…`, or a function that returns one for each request. Default: none, for Workers behind Cloudflare Access. */
  readonly token?: string | (() => string | Promise<string>) | undefined;
  /** A service binding such as `env.ENGINE`, or a function like `fetch`. Default: the global `fetch`. */
  readonly fetch?: Fetch | { fetch: Fetch } | undefined;
  /** Maximum number of retries of a request after a transient failure. Default 4. */
  readonly retries?: number | undefined;
  /** How long one HTTP request may take. Default 60 seconds. */
  readonly timeout_ms?: number | undefined;
}

interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

type Texts<Name extends string> = { readonly [One in Name]?: string | undefined };

export interface EnqueueOptions extends CallOptions, Texts<"correlation_id" | "causation_id" | "callback_url"> {
  /** The command's idempotency key. Required if the command defines no `key`; default: the key derived from the payload. */
  readonly idempotency_key?: string | undefined;
  /** The instance's deadline: a time with its offset, or a duration such as `2 hours`. */
  readonly must_end_by?: string | undefined;
  /** At most 10 texts by which instances are found, each of at most 64 characters. */
  readonly tags?: readonly string[] | undefined;
  readonly delay_seconds?: number | undefined;
  /** The time to start at, with its offset, instead of a delay. */
  readonly run_at?: string | undefined;
  readonly priority?: "high" | "normal" | "low" | undefined;
}

const ENDED = ["complete", "errored", "terminated", "dead", "skipped"] as const;
type EndedStatus = (typeof ENDED)[number];
type OpenStatus = "accepted" | "queued" | "running" | "waiting" | "paused" | "in_doubt";
type InstanceStatus = OpenStatus | EndedStatus;

interface Accepted<Type extends string = string> {
  readonly instance_id: string;
  /** True if the command was accepted before: for example if the client repeated the request after a lost response. */
  readonly replayed: boolean;
  readonly instance_status: InstanceStatus | "pruned";
  readonly due_at: string | null;
  readonly correlation_id: string;
  /** The command's type, which determines the type of the result of `wait`. The API does not return this field. */
  readonly type: Type;
}

/** An instance in a list. `GET /v1/instances` in `/openapi.json` describes each field. */
export interface Listed {
  readonly id: string;
  readonly workflow: string;
  readonly version: number;
  readonly status: InstanceStatus;
  readonly message_type: string;
  readonly idempotency_key: string;
  readonly correlation_id: string;
  readonly causation_id: string;
  readonly subject: string;
  readonly tags: readonly string[];
  readonly step: string | null;
  /** `approval_id` is the id for `approve` and `reject`; `child_id` is the instance that the step awaits. */
  readonly waiting_for: readonly ({ readonly step: string } & {
    readonly [One in "event_type" | "subject" | "approval_id" | "child_id" | "until"]: string | null;
  })[];
  /** The instance whose step started this instance as a child. */
  readonly parent: { readonly id: string; readonly step: string } | null;
  readonly retrying: { readonly step: string; readonly attempt: number; readonly next_at: string | null; readonly error: string } | null;
  readonly error: { readonly code: string | null; readonly message: string; readonly step: string | null } | null;
  readonly due_at: string | null;
  readonly must_end_by: string | null;
  readonly overdue: boolean;
  readonly accepted_at: string;
  readonly updated_at: string;
}

type Detail = Listed & { readonly payload: unknown };

/** `result` is there once the instance is complete, for as long as the platform keeps it. */
type Ended<Result = unknown> =
  | (Detail & { readonly status: "complete"; readonly result: Result })
  | (Detail & { readonly status: Exclude<EndedStatus, "complete">; readonly result: null });

export type Instance<Result = unknown> = Ended<Result> | (Detail & { readonly status: OpenStatus; readonly result: null });

interface ListFilter extends CallOptions, Texts<"workflow" | "subject" | "correlation" | "parent" | "tag" | "cursor"> {
  readonly status?: InstanceStatus | undefined;
  /** Lists only instances accepted at this time or later: a time with its offset. */
  readonly since?: string | undefined;
  readonly limit?: number | undefined;
}

/** Options of an operator action. The audit records the action with its reason. */
interface Reasoned extends CallOptions {
  readonly reason: string;
}

interface Problem {
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly retryable: boolean;
  readonly issues?: readonly { readonly path: string; readonly message: string }[];
  readonly did_you_mean?: string;
}

/**
 * A call that failed. `code` is the API's, such as `idempotency_key_reused`, or the client's: `no_answer`, `unexpected_answer` (the answer
 * is not the engine's), `not_ended` (`wait` reached its deadline). The message contains the cause and the next action.
 */
export class ClientError extends Error {
  override readonly name = "ClientError";
  readonly code: string;
  readonly title: string;
  /** The HTTP status of the response; undefined without a response. */
  readonly status: number | undefined;
  /** True if the same request may succeed later. */
  readonly retryable: boolean;
  readonly issues: NonNullable<Problem["issues"]>;
  readonly did_you_mean: string | undefined;

  constructor({ code, title, detail, retryable, issues = [], did_you_mean }: Problem, status?: number, cause?: unknown) {
    super(detail, { cause });
    this.code = code;
    this.title = title;
    this.status = status;
    this.retryable = retryable;
    this.issues = issues;
    this.did_you_mean = did_you_mean;
  }
}

/** The longest hold of one request of `wait`, in seconds: the API's own maximum. */
const HOLD_S = 30;
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 10_000;
const MAX_RETRY_AFTER_MS = 60_000;

interface Asked {
  /** A field of the response body that every valid response of the engine contains. */
  readonly has: string;
  readonly body?: object | undefined;
  readonly key?: string | undefined;
  /** True if a repeated request has no further effect. */
  readonly repeatable?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Makes a client of the workflows that are given as a type: `createClient<typeof greet | typeof order>({ url, token })`.
 *
 * A request without an answer, or with 502, 503 or 504, is repeated if that is safe: reads, `enqueue` and `signal`, which have their key. A
 * request with the response 429 is always repeated. Pauses grow from 250 ms to 10 s, and are at least as long as the response's `Retry-After`. Errors:
 * `ClientError`; an aborted call throws the reason of its signal.
 */
export function createClient<Workflow extends WorkflowType = WorkflowType>(options: ClientOptions = {}) {
  const { url = "", token, fetch: given, retries = 4, timeout_ms = 60_000 } = options;
  if (url === "" && given === undefined && !("location" in globalThis)) {
    throw new TypeError("createClient needs the engine's `url` outside of a browser, such as https://orders.example.com.");
  }
  const call: Fetch = given === undefined ? (to, init) => fetch(to, init) : "fetch" in given ? (to, init) => given.fetch(to, init) : given;

  async function once(method: string, path: string, { body, key, repeatable, signal }: Asked) {
    const timeout = AbortSignal.timeout(timeout_ms);
    const either = signal ? AbortSignal.any([signal, timeout]) : timeout;
    const text = body && serialized(body);
    const idempotency = key === undefined ? undefined : quoted(key);
    try {
      const bearer = typeof token === "function" ? await Promise.race([token(), aborted(either)]) : token;
      const headers = {
        ...(bearer !== undefined && {
          authorization: `Bearer ${checked("token", bearer, /^[\x21-\x7e]+$/, "must be printable ASCII without spaces")}`,
        }),
        ...(text !== undefined && { "content-type": "application/json" }),
        ...(idempotency !== undefined && { "idempotency-key": idempotency }),
      };
      // Redirects are not followed, because another host must not get the token or the payload.
      const body = text === undefined ? {} : { body: text };
      const answer = await call(url.replace(/\/$/, "") + path, { method, headers, signal: either, redirect: "manual", ...body });
      return { status: answer.status, retryAfter: answer.headers.get("retry-after"), text: await answer.text() };
    } catch (cause) {
      if (cause instanceof ClientError) throw cause;
      signal?.throwIfAborted();
      const next = repeatable
        ? "The same call may be repeated."
        : "It is unknown whether the request took effect: read the instance before you repeat the request.";
      const detail = `${method} ${path} got no answer. ${next}`;
      throw new ClientError({ code: "no_answer", title: "No answer", detail, retryable: repeatable === true }, undefined, cause);
    }
  }

  async function ask<Answer>(method: string, path: string, asked: Asked): Promise<Answer> {
    for (let failures = 0; ; ) {
      let failed: ClientError;
      let afterMs = 0;
      try {
        const { status, retryAfter, text } = await once(method, path, asked);
        const answer = parsed(text);
        if (status >= 200 && status < 300 && answer && asked.has in answer) return answer as Answer;
        failed = errorOf(`${method} ${path}`, status, answer);
        if (status !== 429 && !(asked.repeatable && [502, 503, 504].includes(status))) throw failed;
        afterMs = waitMs(retryAfter);
      } catch (error) {
        if (!(error instanceof ClientError && error.code === "no_answer" && asked.repeatable)) throw error;
        failed = error;
      }
      if (++failures > retries || afterMs > MAX_RETRY_AFTER_MS) throw failed;
      await pause(Math.max(afterMs, pauseMs(failures)), asked.signal);
    }
  }

  const act = async (id: string, verb: string, { signal, ...body }: Reasoned) =>
    ask<{ action_id: string }>("POST", `/v1/instances/${checkedId(id)}/${verb}`, { has: "action_id", body, signal });
  const decide = async (id: string, verb: string, { signal, ...body }: Reasoned) =>
    ask<{ action_id: string; instance_id: string }>("POST", `/v1/approvals/${checkedId(id)}/${verb}`, { has: "action_id", body, signal });

  return {
    /** Accepts a command. A repeated call with the same key returns the same instance. */
    async enqueue<const Type extends TypeOf<Workflow>>(
      type: Type,
      payload: PayloadOf<Workflow, Type>,
      { idempotency_key: key, signal, ...rest }: EnqueueOptions = {},
    ): Promise<Accepted<Type>> {
      const body = { type, payload, ...rest };
      const accepted = await ask<Omit<Accepted, "type">>("POST", "/v1/commands", {
        ...{ has: "instance_id", body, key, signal, repeatable: true },
      });
      return { ...accepted, type };
    },

    /** Reads an instance. Name the command's type to type its result: `get<"greet">(id)`. */
    get: async <Type extends TypeOf<Workflow>>(id: string, { signal }: CallOptions = {}): Promise<Instance<ResultOf<Workflow, Type>>> =>
      ask("GET", `/v1/instances/${checkedId(id)}`, { has: "status", signal, repeatable: true }),

    /**
     * Waits until an instance has ended, successfully or not, and returns the instance with its `status`. Accepts the result of `enqueue`,
     * or an id. Errors: `not_ended` after `timeout_seconds`, by default 300.
     */
    async wait<Type extends TypeOf<Workflow>>(
      instance: Accepted<Type> | string,
      { timeout_seconds = 300, signal }: CallOptions & { timeout_seconds?: number } = {},
    ): Promise<Ended<ResultOf<Workflow, Type>>> {
      const id = checkedId(typeof instance === "string" ? instance : instance.instance_id);
      const deadline = AbortSignal.timeout(timeout_seconds * 1000);
      const until = Date.now() + timeout_seconds * 1000;
      const asked = { has: "status", signal: signal ? AbortSignal.any([signal, deadline]) : deadline, repeatable: true };
      let status = "not read";
      try {
        for (let looks = 1; ; looks++) {
          const hold = Math.max(0, Math.min(HOLD_S, Math.floor(timeout_ms / 2000), Math.floor((until - Date.now()) / 1000)));
          const found = await ask<Instance>("GET", `/v1/instances/${id}?wait=${hold}`, asked);
          if ((ENDED as readonly string[]).includes(found.status)) return found as Ended<ResultOf<Workflow, Type>>;
          status = found.status;
          // The API returns at once if only an operator can continue the instance.
          await pause(pauseMs(looks), asked.signal);
        }
      } catch (error) {
        if (!deadline.aborted || signal?.aborted) throw error;
        const detail = `The instance ${id} is ${status} after ${timeout_seconds} s. Wait for it again, or read it later with get.`;
        throw new ClientError({ code: "not_ended", title: "Not ended", detail, retryable: true });
      }
    },

    /** Lists instances, newest first. `next_cursor` is the `cursor` of the next page; null on the last. */
    list({ signal, ...filter }: ListFilter = {}): Promise<{ items: Listed[]; next_cursor: string | null }> {
      const query = new URLSearchParams();
      for (const [name, value] of Object.entries(filter)) if (value !== undefined) query.set(name, String(value));
      return ask("GET", `/v1/instances?${query}`, { has: "items", signal, repeatable: true });
    },

    /** Retries an errored or terminated instance, from the step that failed, or `from` another. */
    retry: (id: string, options: Reasoned & { from?: string; force?: boolean }) => act(id, "retry", options),
    /** Cancels an instance under way, and undoes its effects unless `undo` is false. */
    cancel: (id: string, options: Reasoned & { undo?: boolean }) => act(id, "cancel", options),
    pause: (id: string, options: Reasoned) => act(id, "pause", options),
    resume: (id: string, options: Reasoned) => act(id, "resume", options),

    /** Sends an event to one instance. `idempotency_key` names the signal. */
    signal: async (id: string, type: string, payload: unknown, options: Reasoned & { idempotency_key: string }) => {
      const { idempotency_key: key, signal, ...rest } = options;
      const path = `/v1/instances/${checkedId(id)}/signals/${encodeURIComponent(type)}`;
      const asked = { has: "event_id", body: { payload, ...rest }, key, signal, repeatable: true };
      return ask<{ action_id: string; event_id: string; replayed: boolean; step: string | null }>("POST", path, asked);
    },

    /** Answers the question of a waiting instance: `waiting_for[].approval_id` is its id. */
    approve: (id: string, options: Reasoned) => decide(id, "approve", options),
    reject: (id: string, options: Reasoned) => decide(id, "reject", options),
  };
}

export type Client<Workflow extends WorkflowType = WorkflowType> = ReturnType<typeof createClient<Workflow>>;

function invalid(path: string, message: string): ClientError {
  const issues = [{ path, message }];
  return new ClientError({
    code: "invalid_payload",
    title: "Invalid call",
    detail: `${path} ${message}. Nothing was sent.`,
    retryable: false,
    issues,
  });
}

/** Writes an idempotency key as a string of RFC 8941, so that the key may contain a comma. */
const quoted = (key: string) =>
  `"${checked("idempotency_key", key, /^[\x20-\x7e]{1,500}$/, "must be 1 to 500 printable ASCII characters").replace(/["\\]/g, "\\$&")}"`;

const checkedId = (id: string) => checked("id", id, /^[\w-]{1,100}$/, "must be the id of an instance or a question");

/** The error contains no part of the refused value, because the value may be a token. */
function checked(path: string, value: string, form: RegExp, message: string): string {
  if (form.test(value)) return value;
  throw invalid(path, message);
}

function serialized(body: object): string {
  try {
    return JSON.stringify(body);
  } catch (cause) {
    throw invalid("payload", `is not JSON: ${cause instanceof Error ? cause.message : "it cannot be serialized"}`);
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

/** Milliseconds of a `Retry-After`, which has seconds or a date. */
function waitMs(retryAfter: string | null): number {
  const seconds = Number(retryAfter);
  return Math.max(0, Number.isNaN(seconds) ? Date.parse(String(retryAfter)) - Date.now() || 0 : seconds * 1000);
}

function parsed(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function errorOf(request: string, status: number, answer: Partial<Problem> | undefined): ClientError {
  if (status >= 400 && answer?.code !== undefined && answer.detail !== undefined) return new ClientError(answer as Problem, status);
  // A browser shows a redirect as status 0.
  const isRedirect = status === 0 || (status >= 300 && status < 400);
  const next = isRedirect ? "It is a redirect, which is not followed. Set `url` to the engine's own address." : "Check `url`.";
  const detail = `${request} answered ${status}, and not as an engine answers. ${next}`;
  return new ClientError({ code: "unexpected_answer", title: "Unexpected answer", detail, retryable: status >= 500 }, status);
}

function pauseMs(failures: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** (failures - 1), MAX_PAUSE_MS) * (0.5 + Math.random() / 2);
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const over = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", over);
      resolve();
    }, ms);
    if (signal?.aborted) over();
    else signal?.addEventListener("abort", over, { once: true });
  });
}
