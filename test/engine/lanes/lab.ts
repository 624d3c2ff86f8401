import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { laneOf } from "millrace/lanes";
import { lanes } from "millrace/operate";
import type { LaneEnv, LaneMessage } from "../../../packages/millrace/src/lanes/client.ts";
import type { LaneDefinition } from "../../../packages/millrace/src/lanes/definition.ts";
import type { LaneLook } from "../../../packages/millrace/src/lanes/look.ts";
import { handlers, type LaneBody } from "../../probe/lanes.ts";
import { until } from "../../until.ts";
import { fresh } from "../harness.ts";

export const laneEnv = env as unknown as Required<LaneEnv>;

export type LaneBatch = MessageBatch<LaneBody>;

/** A lane with a unique key. Records the calls of its handler. */
export class LabLane {
  readonly key = fresh("lane");
  /** The message numbers of each call of the handler. */
  readonly calls: number[][] = [];
  readonly #lane: LaneDefinition<LaneBody>;

  constructor(lane: LaneDefinition<LaneBody>, handle: (batch: LaneBatch, ctx: ExecutionContext) => unknown = () => undefined) {
    this.#lane = lane;
    handlers.set(this.key, (batch, ctx) => {
      this.calls.push(batch.messages.map(({ body }) => body.n));
      return handle(batch, ctx);
    });
  }

  get client() {
    return laneOf(laneEnv, this.#lane, this.key);
  }

  message(n: number, options: Partial<LaneMessage<LaneBody>> = {}): LaneMessage<LaneBody> {
    return { body: { n, note: this.key }, ...options };
  }

  /** Sends these numbers in one call. */
  send(...numbers: number[]) {
    return this.client.sendBatch(numbers.map((n) => this.message(n)));
  }

  get objectName(): string {
    return JSON.stringify([this.#lane.name, null, this.key]);
  }

  get stub() {
    return laneEnv.LANES.getByName(this.objectName);
  }

  get object() {
    return lanes.objectOf(laneEnv, { lane: this.#lane.name, tenant: null, key: this.key });
  }

  async die(): Promise<void> {
    await runInDurableObject(this.stub, (_, state) => state.abort("Died.")).catch(() => undefined);
  }

  /** Waits for this state. Throws on timeout. */
  async is(state: LaneLook["state"]): Promise<LaneLook> {
    const seen = await until(
      () => this.object.look(),
      (look) => look.state === state,
      10_000,
    );
    if (seen.state !== state) throw new Error(`The lane is ${seen.state}, not ${state}: ${JSON.stringify(seen)}`);
    return seen;
  }
}

export function numbers(count: number, from = 0): number[] {
  return Array.from({ length: count }, (_, at) => from + at);
}
