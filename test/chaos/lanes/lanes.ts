import { defineLane, sendToLanes } from "millrace/lanes";
import { lanes as engineLanes } from "millrace/operate";
import type { LaneEnv } from "../../../packages/millrace/src/lanes/client.ts";
import type { LaneDefinition, LaneLetter } from "../../../packages/millrace/src/lanes/definition.ts";
import type { LaneLook } from "../../../packages/millrace/src/lanes/look.ts";
import type { LaneSent } from "../../../packages/millrace/src/lanes/storage.ts";
import { BATCH_SIZE, type Body, type Freed, LANES, type LaneName, RETRIES, type Told, type ToldLetter } from "./entries.ts";

// The lanes whose process is killed. Their handlers report each delivery to the ledger, and fail if it refuses the message.

export interface LedgerEnv {
  LEDGER_URL: string;
}

const TELL_MS = 10_000;

let ownLife: string | undefined;
/** The name of this process. */
export function life(): string {
  ownLife ??= crypto.randomUUID();
  return ownLife;
}

/** Returns whether the ledger has accepted the line. */
async function tell({ LEDGER_URL }: LedgerEnv, what: "deliveries" | "letters", told: Told | ToldLetter): Promise<boolean> {
  const init = { method: "POST", body: JSON.stringify(told), signal: AbortSignal.timeout(TELL_MS) };
  const answer = await fetch(`${LEDGER_URL}/${what}`, init);
  await answer.text();
  return answer.ok;
}

async function handle(batch: MessageBatch<Body>, env: LedgerEnv): Promise<void> {
  const about = { lane: batch.queue as LaneName, life: life(), call: crypto.randomUUID() };
  for (const message of batch.messages) {
    const { id, attempts, body } = message;
    if (await tell(env, "deliveries", { ...body, ...about, id, attempts })) message.ack();
    // The return acknowledges the messages after this one, unprocessed: this message has to be delivered again.
    else if (body.n % 2 === 0) return message.retry();
    else throw new Error(`${body.n} was refused.`);
  }
}

async function lay({ key, lane, id, reason, body: { n } }: LaneLetter<Body>, env: LedgerEnv): Promise<void> {
  const isTaken = await tell(env, "letters", { lane: lane as LaneName, key, n, life: life(), id, reason });
  if (!isTaken) throw new Error(`The dead letter of message ${n} was refused.`);
}

const lanes = Object.fromEntries(
  Object.entries(LANES).map(([name, onFailure]) => [
    name,
    defineLane<Body, LedgerEnv>({ name, onFailure, retries: RETRIES, batch: { size: BATCH_SIZE }, queue: handle, onDeadLetter: lay }),
  ]),
) as Record<LaneName, LaneDefinition<Body, LedgerEnv>>;

export const laneList = Object.values(lanes);

/** A lane's state, and the message that blocks it. */
export type Stand = LaneLook & { heldFor: Body | undefined };

/** The HTTP interface of the lanes. */
export function laneDoors(env: LaneEnv) {
  const object = (lane: LaneName, key: string) => engineLanes.objectOf(env, { lane, tenant: null, key });
  return {
    /** Sends messages, in the order of each key, under idempotency keys. Returns the results of the stored messages. */
    async sendToLanes(lane: LaneName, bodies: readonly Body[]): Promise<(Body & LaneSent)[]> {
      const messages = bodies.map((body) => ({ key: body.key, body, idempotencyKey: `message ${body.n}` }));
      return (await sendToLanes(env, lanes[lane], messages)).flatMap((one) => {
        const of = bodies.filter(({ key }) => key === one.key);
        return "sent" in one ? one.sent.map((sent, at) => ({ ...(of[at] as Body), ...sent })) : [];
      });
    },
    lookAtLanes: (lane: LaneName, keys: readonly string[]): Promise<Stand[]> =>
      Promise.all(
        keys.map(async (key) => {
          const look = await object(lane, key).look();
          const [first] = look.state === "held" ? await object(lane, key).messages({ limit: 1 }) : [];
          return { ...look, heldFor: first?.body as Body | undefined };
        }),
      ),
    async freeLane(lane: LaneName, key: string, id: string, how: Freed["how"]): Promise<unknown> {
      if (how === "resume") return object(lane, key).resume();
      return how === "skip" ? object(lane, key).skipHead(id) : object(lane, key).retryHead(id);
    },
  };
}
