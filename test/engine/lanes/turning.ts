import { runInDurableObject } from "cloudflare:test";
import { ids, traces } from "millrace";
import { lanes } from "millrace/operate";
import { outbox } from "millrace/worker";
import type { LaneRow } from "../../../packages/millrace/src/inspect/lanes.ts";
import { acceptCommand, acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { type TurnCall, turnCode, type turns } from "../../probe/turns.ts";
import { app } from "../../probe/worker.ts";
import { until } from "../../until.ts";
import { fresh, happened, probeEnv, reaches, rows } from "../harness.ts";
import { held, refuse } from "../lab.ts";
import { laneEnv } from "./lab.ts";

type TurnLane = (typeof turns)[number];

/** A unique key of a lane that starts instances of a workflow. */
export class TurnKey {
  readonly key: string;
  readonly #of: TurnLane;
  readonly #tenant: string;

  constructor(of: TurnLane, tenant = "acme", key = fresh("key")) {
    this.#of = of;
    this.#tenant = tenant;
    this.key = key;
  }

  /** Sets the code that the run of this name executes between its two effects. */
  run(name: string, code: (call: TurnCall) => Promise<unknown>): void {
    turnCode.set(`${this.key} ${name}`, code);
  }

  payload(name: string) {
    return { key: this.key, name: `${this.key} ${name}` };
  }

  /** Accepts a command for a run. Returns its instance id. */
  async ask(name: string, more: { secret?: string } = {}): Promise<string> {
    const by = { tenantId: this.#tenant, source: "test" };
    return (await acceptCommand(probeEnv, app, by, { type: this.#of.command.type, payload: { ...this.payload(name), ...more } }))
      .instanceId;
  }

  /** Accepts the commands of several runs in one request. */
  async askAll(...names: string[]): Promise<void> {
    const requests = names.map((name) => ({ type: this.#of.command.type, payload: this.payload(name) }));
    await acceptCommands(probeEnv, app, { tenantId: this.#tenant, source: "test" }, requests);
  }

  id(name: string): string {
    return ids.instance(this.#tenant, this.#of.workflow.name, `${this.key}/${this.payload(name).name}`);
  }

  /** A run of this name that pauses until it is released. */
  gate(name: string): () => void {
    let isOpen = false;
    this.run(name, ({ step }) => step.read("stands", () => held(() => isOpen)));
    return () => {
      isOpen = true;
    };
  }

  /** A run of this name that fails until it is fixed. */
  breaks(name: string): () => void {
    let isMended = false;
    this.run(name, ({ step }) => step.commit("breaks", () => (isMended ? {} : refuse()), { retries: { limit: 0, delay: 10 } }));
    return () => {
      isMended = true;
    };
  }

  /** Sends an invalid message, as a producer of another deployment might. */
  async poison(): Promise<void> {
    const [draft, by] = [this.#of.command.from(this.payload("poison")), { tenantId: this.#tenant, source: "test" }];
    const said = { correlationId: fresh("job"), causationId: "test", traceparent: traces.begin(), owner: fresh("poison") };
    const envelope = { ...(await outbox.address(probeEnv.PAYLOADS, draft, { ...by, ...said })), payload_inline: { key: this.key } };
    await outbox.relay(probeEnv, [
      { id: outbox.messageId(envelope), queue: this.#of.queue.name, delaySeconds: 0, body: JSON.stringify(envelope) },
    ]);
  }

  /** Waits for a dead letter of the lane's messages. Returns all of them. */
  letters(): Promise<{ reason: string; queue: string }[]> {
    const sql = "SELECT reason, queue FROM millrace_dead_letters WHERE tenant_id = ?1 AND body->>'subject' = ?2";
    return until(
      () => rows<{ reason: string; queue: string }>(sql, this.#tenant, this.key),
      (found) => found.length > 0,
    );
  }

  /** The recorded effects in order: "a begins", "a ends". */
  async seen(): Promise<string[]> {
    return (await happened(`${this.key}/`)).map(({ subject }) => subject.slice(this.key.length * 2 + 2));
  }

  /** Waits for this effect. Returns all effects up to it. */
  seenBy(last: string, withinMs = 15_000): Promise<string[]> {
    return until(
      () => this.seen(),
      (seen) => seen.includes(last),
      withinMs,
    );
  }

  get by() {
    return { tenantId: this.#tenant, actor: "tess" };
  }

  get name() {
    return { lane: this.#of.queue.name.replace("lane:", ""), key: this.key };
  }

  /** Waits until the condition is true. Returns the state of the lane. */
  stands(right: (standing: LaneRow) => boolean): Promise<LaneRow> {
    return until(() => lanes.describe(probeEnv, this.by, this.name), right, 15_000);
  }

  reaches(name: string, ...statuses: string[]) {
    return reaches(this.id(name), ...statuses);
  }

  get stub() {
    return laneEnv.LANES.getByName(JSON.stringify([this.name.lane, this.#tenant, this.key]));
  }

  /** Kills the object, so that only the stored state of the lane remains. */
  async die(): Promise<void> {
    await runInDurableObject(this.stub, (_, state) => state.abort("Died.")).catch(() => undefined);
  }

  /** Moves the start of the running instances into the past by this number of seconds, and wakes the object. */
  async age(seconds: number): Promise<void> {
    await runInDurableObject(this.stub, (_, { storage }) => {
      const kept = storage.kv.get<{ places: { since: number }[] }>("places");
      if (!kept) throw new Error("The lane has no running instance.");
      storage.kv.put("places", { ...kept, places: kept.places.map((place) => ({ ...place, since: place.since - seconds * 1000 })) });
    });
    await this.die();
    await this.stub.look();
  }
}
