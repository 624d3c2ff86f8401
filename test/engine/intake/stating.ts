import { runInDurableObject } from "cloudflare:test";
import type { Caller } from "../../api/client.ts";
import { type LabCall, labs } from "../../probe/lab.ts";
import type { Listener } from "../../probe/listener.ts";
import { fresh, keeperRound, probeEnv, rows, until } from "../harness.ts";
import { hear } from "../signals/waiting.ts";

export const DAY_MS = 86_400_000;

export const signal = (about: string, value: string) => ({ type: "probe.signal", payload: { about, value } });
export const done = (name: string, step = "outside") => ({ type: "probe.done", payload: { name, step } });
export const keyed = (key: string) => ({ "idempotency-key": key });
export const state = (caller: Caller, event: object, key = fresh("key")) => caller.post("/v1/events", event, keyed(key));

/** A run of the caller's tenant with this code. */
export async function runFor(caller: Caller, code: (call: LabCall) => Promise<unknown>): Promise<{ id: string; name: string }> {
  const name = fresh("lab");
  labs.set(name, code);
  const { body } = await caller.post("/v1/commands", { type: "lab.requested", payload: { name } });
  return { id: body.instance_id, name };
}

export const listen = (caller: Caller) => runFor(caller, ({ step, payload }) => hear(step, "answer", payload.name));

/** The results of the events published for a name: the kinds of their rows and the number of calls. */
export async function followed(name: string) {
  const kinds = await rows<{ kind: string }>("SELECT kind FROM probe_rows WHERE name = ?1 ORDER BY kind", name);
  const listener = probeEnv.LISTENER.get(probeEnv.LISTENER.idFromName(name)) as unknown as DurableObjectStub<Listener>;
  return { kinds: kinds.map(({ kind }) => kind), told: await runInDurableObject(listener, (object) => object.heard()) };
}
export const ONCE = { kinds: ["command", "event"], told: 1 };

/** Waits until a result exists, and then longer, so that a duplicate would arrive. */
export async function settled(name: string) {
  await until(
    () => followed(name),
    ({ kinds, told }) => kinds.length >= 2 && told >= 1,
  );
  await keeperRound();
  await until(
    () => rows("SELECT id FROM millrace_outbox WHERE instr(body, ?1) > 0", name),
    (left) => left.length === 0,
  );
  return followed(name);
}

/** The stored message of an event for which runs may wait. */
export async function kept(eventId: string) {
  const find = () => rows<{ envelope: string }>("SELECT envelope FROM millrace_signals WHERE envelope->>'idempotency_key' = ?1", eventId);
  const [row] = await until(find, (found) => found.length > 0);
  return JSON.parse(row?.envelope ?? "null");
}
