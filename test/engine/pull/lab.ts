import { createExecutionContext, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { pullQueues, type Scope, tokens } from "millrace/operate";
import { pullQueueOf } from "millrace/pull";
import { vi } from "vitest";
import { PULL_SCOPE, type PullQueueDefinition } from "../../../packages/millrace/src/pull/definition.ts";
import type { PullMessage } from "../../../packages/millrace/src/pull/message.ts";
import type { PullEnv, PullStub } from "../../../packages/millrace/src/pull/stub.ts";
import worker from "../../probe/worker.ts";
import { fresh, probeEnv } from "../harness.ts";

export const pullEnv: PullEnv = { PULL_QUEUES: (env as unknown as PullEnv).PULL_QUEUES };
/** The pull queues of a Worker without any other binding of the engine. */
export const ALONE: PullEnv = { PULL_QUEUES: (env as unknown as { ALONE_PULL_QUEUES: PullEnv["PULL_QUEUES"] }).ALONE_PULL_QUEUES };

export interface Pulled {
  body: string;
  id: string;
  timestamp_ms: number;
  attempts: number;
  metadata: Record<string, string>;
  lease_id: string;
}

export interface Answer {
  status: number;
  headers: Headers;
  body: { success: boolean; errors: { code: number; message: string }[]; messages: string[]; result: never };
}

/** Sends a request to the probe Worker. */
export async function request(
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
  { method = "POST", env }: { method?: string; env?: object } = {},
): Promise<Answer> {
  const init = { method, headers: { "content-type": "application/json", ...headers } };
  const asked = new Request(`http://localhost${path}`, method === "GET" ? init : { ...init, body: JSON.stringify(body) });
  const response = (await worker.fetch?.(
    asked as never,
    { ...probeEnv, ...env } as unknown as Env,
    createExecutionContext(),
  )) as unknown as Response;
  return { status: response.status, headers: response.headers, body: await response.json() };
}

export function tokenFor(tenantId: string, ...scopes: Scope[]): Promise<string> {
  return tokens.mint(probeEnv, { tenantId, actor: "renderer", scopes });
}

/** A queue of a unique tenant, with its HTTP pull consumer. */
export class LabQueue {
  readonly tenant = fresh("tenant").toLowerCase();
  readonly #queue: PullQueueDefinition;
  readonly #env: PullEnv;
  #token: Promise<string> | undefined;

  constructor(queue: PullQueueDefinition, env: PullEnv = pullEnv) {
    this.#queue = queue;
    this.#env = env;
  }

  get path(): string {
    return `/client/v4/accounts/${this.tenant}/queues/${this.#queue.name}/messages`;
  }

  get client() {
    return pullQueueOf(this.#env, this.#queue, this.tenant);
  }

  get object(): PullStub {
    return pullQueues.objectOf(this.#env, { queue: this.#queue.name, tenant: this.tenant });
  }

  send(...bodies: unknown[]) {
    return this.client.sendBatch(bodies.map((body): PullMessage<unknown> => ({ body })));
  }

  async ask(verb: "pull" | "ack", body: unknown): Promise<Answer> {
    this.#token ??= tokenFor(this.tenant, PULL_SCOPE);
    return request(`${this.path}/${verb}`, body, { authorization: `Bearer ${await this.#token}` }, { env: this.#env });
  }

  async pull(body: { batch_size?: number; visibility_timeout_ms?: number } = {}): Promise<Pulled[]> {
    const { messages } = (await this.ask("pull", body)).body.result as { messages: Pulled[] };
    return messages;
  }

  async ack(acks: readonly Pulled[], retries: readonly (Pulled & { delay_seconds?: number })[] = []) {
    const { body } = await this.ask("ack", {
      acks: acks.map(({ lease_id }) => ({ lease_id })),
      retries: retries.map(({ lease_id, delay_seconds }) => ({ lease_id, delay_seconds })),
    });
    return body.result as { ackCount: number; retryCount: number; warnings: Record<string, string> };
  }

  /** Aborts the object, as a crash does: it loses its memory. */
  async crash(): Promise<void> {
    const stub = this.object as unknown as DurableObjectStub;
    await runInDurableObject(stub, (_, state) => state.abort("The test aborts the object.")).catch(() => undefined);
  }
}

export const textOf = ({ body }: Pulled): unknown => JSON.parse(Buffer.from(body, "base64").toString());

/** A clock that the test moves forward, for all code that calls `Date.now()`. */
export function movedClock() {
  const real = Date.now.bind(Date);
  let ahead = 0;
  const spy = vi.spyOn(Date, "now").mockImplementation(() => real() + ahead);
  return {
    pass: (ms: number) => {
      ahead += ms;
    },
    [Symbol.dispose]: () => spy.mockRestore(),
  };
}
