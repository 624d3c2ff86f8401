import { objectBinding } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { placed } from "../contract/location.ts";
import { checkedName, type LaneDefinition, type LaneName, objectName } from "./definition.ts";
import type { LaneObject } from "./lane-object.ts";
import { type LaneSendOptions, type Posted, posted } from "./message.ts";
import type { LaneSent } from "./storage.ts";

/** A message and its send options. */
export interface LaneMessage<Body> extends LaneSendOptions {
  body: Body;
}

/** The sender's interface to one lane of one key. */
export interface LaneClient<Body> {
  /** Appends a message. The message is stored when the promise resolves. Errors: as `sendBatch`. */
  send(body: Body, options?: LaneSendOptions): Promise<LaneSent>;
  /**
   * Appends messages in the given order, by one call and with one write per 256 KB. Either all messages are stored or no message. Errors:
   * `payload_too_large` for a body above 128 KB, or for a call above 16 MB in total; `invalid_payload`; `config_invalid` if the lane's
   * object does not know this lane.
   */
  sendBatch(messages: readonly LaneMessage<Body>[]): Promise<LaneSent[]>;
}

interface LaneOptions {
  /** The tenant of the lane. If two tenants use the same key, each tenant has a separate lane. Default: a lane without a tenant. */
  tenant?: string | undefined;
}

/** Maximum total size of the messages of one call, in characters of JSON. The RPC limit is 32 MiB. */
const MAX_CALL_CHARACTERS = 16 * 1024 * 1024;

/** Returns the client of one key's lane. */
export function laneOf<Body>(
  env: LaneEnv,
  lane: LaneDefinition<Body, never>,
  key: string,
  { tenant = undefined }: LaneOptions = {},
): LaneClient<Body> {
  const name = checkedName({ lane: lane.name, tenant: tenant ?? null, key });
  const send = async (posts: Posted[]): Promise<LaneSent[]> => {
    if (posts.length === 0) return [];
    const total = posts.reduce((sum, { text }) => sum + text.length, 0);
    if (total > MAX_CALL_CHARACTERS) {
      throw new MillraceError(
        "payload_too_large",
        `A batch for the lane "${lane.name}" has ${total} characters: send at most 16 MB at once.`,
      );
    }
    const answer = await laneObjectOf(env, name).send(posts);
    if ("sent" in answer) return answer.sent;
    if ("fullAtBytes" in answer) {
      const full = `The lane "${lane.name}" is full (${answer.fullAtBytes} bytes). The message was not stored: send it again when the lane is shorter.`;
      throw new MillraceError("unavailable", full);
    }
    const meant = answer.didYouMean === undefined ? "" : ` Perhaps "${answer.didYouMean}" is meant.`;
    throw new MillraceError(
      "config_invalid",
      `The object LANES has no lane "${answer.unknownLane}".${meant} Add it to the list of laneObject([…]), and deploy that.`,
      { ...(answer.didYouMean !== undefined && { didYouMean: answer.didYouMean }) },
    );
  };
  return {
    async send(body, options) {
      const [sent] = await send([posted(lane.name, body, options)]);
      return sent as LaneSent;
    },
    sendBatch: async (messages) => send(messages.map(({ body, ...options }) => posted(lane.name, body, options))),
  };
}

export interface LaneKeyMessage<Body> extends LaneMessage<Body> {
  key: string;
  tenant?: string | undefined;
}

/** The result for one key: all of its messages were stored, or no message was stored because of `error`. */
export type LaneKeySent = { key: string; tenant: string | null } & ({ sent: LaneSent[] } | { error: unknown });

/** Maximum number of lanes that are called at the same time. */
const SIDE_BY_SIDE = 50;

/** Sends messages to many keys of a lane in parallel, with one call and one result per key. The messages of one key keep their order. */
export async function sendToLanes<Body>(
  env: LaneEnv,
  lane: LaneDefinition<Body, never>,
  messages: readonly LaneKeyMessage<Body>[],
): Promise<LaneKeySent[]> {
  const groups = [...Map.groupBy(messages, ({ key, tenant }) => JSON.stringify([tenant ?? null, key])).values()];
  const answers: LaneKeySent[] = [];
  const next = groups.entries();
  const work = async () => {
    for (const [at, group] of next) {
      const { key = "", tenant } = group[0] ?? {};
      const about = { key, tenant: tenant ?? null };
      try {
        answers[at] = { ...about, sent: await laneOf(env, lane, key, { tenant }).sendBatch(group) };
      } catch (error) {
        answers[at] = { ...about, error };
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(SIDE_BY_SIDE, groups.length) }, work));
  return answers;
}

/** The environment of a Worker with lanes: the Durable Object of `laneObject`, bound as LANES or only exported as `Lanes`. */
export type LaneEnv = object & { LANES?: DurableObjectNamespace<LaneObject> };

/** The RPC interface of a lane's object. The type is written out, because the mapped types of Workers RPC lose the class. */
type LaneStub = {
  [Name in Exclude<keyof LaneObject, keyof DurableObjectBase>]: (
    ...args: Parameters<LaneObject[Name]>
  ) => Promise<Awaited<ReturnType<LaneObject[Name]>>>;
};
type DurableObjectBase = import("cloudflare:workers").DurableObject;

/**
 * The object of a lane. Callers use the object to send messages, to read the lane, and to operate the lane. A lane without a tenant has
 * `tenant: null`. The form `{ object }` takes an object's id from a log line (`lane_gave_up`). The `look()` of that object returns the
 * lane's name, tenant and key.
 */
export function laneObjectOf(env: LaneEnv, name: LaneName | { readonly object: string }): LaneStub {
  const lanes = objectBinding<LaneObject>(env, "LANES");
  const stub = "object" in name ? lanes.get(lanes.idFromString(name.object)) : lanes.getByName(objectName(name), placed(env));
  return stub as unknown as LaneStub;
}
