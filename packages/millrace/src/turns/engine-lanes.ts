import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { type AnyLane, defineLane, plansOf } from "../lanes/definition.ts";
import type { LaneObject } from "../lanes/lane-object.ts";
import type { Catalog } from "../topology/catalog.ts";
import { type EngineLane, lanesOf } from "./lane-consumers.ts";
import { TurnsObject } from "./turns-object.ts";

/** Time limit for the write that records a batch's timeout. */
const LATE_MS = 10_000;

/**
 * The object class of the app's lanes and of custom lanes: `export class Lanes extends engineLanes(app, [orders]) {}`, bound as LANES.
 * Errors: `config_invalid`, which names the necessary change.
 */
export function engineLanes(catalog: Catalog, own: readonly AnyLane[] = []): typeof LaneObject {
  const lanes = new Map(lanesOf(catalog).map((lane) => [lane.name, lane]));
  const plans = plansOf(own);
  const [twice] = [...lanes.keys()].filter((name) => plans.has(name));
  if (twice !== undefined) {
    throw new MillraceError("config_invalid", `Two lanes are named "${twice}": a lane of a queue and a custom lane. Rename one.`);
  }
  return class extends TurnsObject {
    protected override readonly lanes = lanes;
    protected override readonly plans = new Map([...plans, ...plansOf([...lanes.values()].map((lane) => this.#laneOf(lane)))]);

    /** The lane object retries without limit, because the acceptance of the head message applies the policy for a failing head message. */
    #laneOf(lane: EngineLane): AnyLane {
      const { retries, batch, deadlineMs } = lane.consumer;
      return defineLane<unknown, EngineEnv>({
        name: lane.name,
        queue: (messages, env) => this.take(lane, messages, env),
        onFailure: "block",
        retries: { initial: retries.initialMs, max: retries.maxMs },
        batch: { size: batch.size },
        deadline: deadlineMs + LATE_MS,
        onDeadLetter: (letter, env) => lane.keepLetter(letter, env),
      });
    }
  };
}
