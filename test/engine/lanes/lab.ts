import { env } from "cloudflare:workers";
import { type LaneDefinition, type LaneEnv, type LaneMessage, laneOf } from "millrace";
import { type LaneLook, laneObjectOf } from "millrace/operate";
import { handlers, type LaneBody } from "../../probe/lanes.ts";
import { until } from "../../until.ts";
import { fresh } from "../harness.ts";

export const laneEnv = env as unknown as LaneEnv;

export type LaneBatch = MessageBatch<LaneBody>;

/** One lane of a key that no other test uses, with what its handler does and has seen. */
export class LabLane {
  readonly key = fresh("lane");
  /** The numbers of the messages, call by call of the handler. */
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

  get object() {
    return laneObjectOf(laneEnv, { lane: this.#lane.name, tenant: null, key: this.key });
  }

  /** How it stands once it is so. */
  is(state: LaneLook["state"]) {
    return until(
      () => this.object.look(),
      (seen) => seen.state === state,
    );
  }
}
