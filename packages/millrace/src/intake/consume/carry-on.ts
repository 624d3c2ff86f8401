import type { EngineEnv } from "../../contract/bindings.ts";
import { crashPoint } from "../../contract/crash-points.ts";
import { duringSpan } from "../../contract/trace.ts";
import { spanOfDelivery } from "../../observe/deliveries.ts";
import { relay } from "../../recorder/relay.ts";
import { startInTurn } from "../../recorder/start.ts";
import { wake } from "../../signals/assign.ts";
import { atomically } from "../../store/d1/retry.ts";
import { watchAgain } from "../../store/instances/look.ts";
import { UNSEEN } from "../../store/instances/status.ts";
import { confirm } from "../../store/outbox.ts";
import { confirmToSenders } from "../../topology/hooks.ts";
import { outgoing } from "../accept/accept.ts";
import type { Intake, Outcome, Outcomes } from "../consumer.ts";
import { firstOf } from "../identity.ts";
import { captureReused } from "./capture-reused.ts";
import { failedBy } from "./follow.ts";
import type { Plan, Written } from "./plan.ts";
import { slices } from "./slices.ts";

/**
 * Sends commands, notifies waits and starts instances after the commit. The function sends and starts only rows that the commit wrote for
 * the given messages.
 */
export async function carryOn(intake: Intake, group: readonly Plan[], written: Written, outcomes: Outcomes): Promise<void> {
  const { env, catalog } = intake;
  const captured = await captureReused(intake, group, written);
  await send(env, group, written);
  await crashPoint("signal stored, instance not notified");
  await wake(env, written.waits, written.kept, catalog.elsewhere);
  const putOff = await start(env, group, written);
  const failed = await callAfter(group);
  for (const plan of group) outcomes.set(plan.message, failed.get(plan) ?? whatBecameOf(plan, written, { captured, putOff }));
  const over = group.filter((plan) => !failed.has(plan));
  await atomically(env.DB, confirm(over.filter(({ after = [] }) => after.length > 0).map(({ envelope }) => envelope)));
  await confirmToSenders(
    catalog.hooks,
    env,
    over.map(({ envelope }) => envelope),
  );
}

/** Runs the code of routes that must run after the commit. Returns the outcome of each event for which such code threw an error. */
async function callAfter(group: readonly Plan[]): Promise<ReadonlyMap<Plan, Outcome>> {
  const failed = new Map<Plan, Outcome>();
  const calls = group.flatMap((plan) => (plan.after ?? []).map((run) => ({ plan, run })));
  await Promise.all(
    calls.map(async ({ plan, run }) => {
      try {
        await duringSpan(spanOfDelivery(plan.message), run);
      } catch (thrown) {
        failed.set(plan, failedBy(thrown));
      }
    }),
  );
  return failed;
}

async function send(env: EngineEnv, group: readonly Plan[], { sent }: Written): Promise<void> {
  const commands = firstOf(group.flatMap((plan) => plan.commands)).filter((one) => sent.has(one));
  for (const slice of slices(commands, (command) => [command])) {
    await relay(
      env,
      slice.map((one) => outgoing(env.MILLRACE_KEY, one, sent.get(one)?.held === 1)),
    );
  }
}

/**
 * Creates instances on the platform. Returns the ids of the instances that could not be created yet. The keeper starts these instances
 * later.
 */
async function start(env: EngineEnv, group: readonly Plan[], { taken }: Written): Promise<{ has(id: string): boolean }> {
  const unseen = firstOf(group.flatMap((plan) => plan.instances)).filter((one) => UNSEEN.has(taken.get(one)?.status ?? "dead"));
  const queued = unseen.filter((one) => taken.get(one)?.status === "queued" && taken.get(one)?.held === 0);
  const unwatched = unseen.filter((one) => taken.get(one)?.unwatched === 1);
  if (unwatched.length > 0) await atomically(env.DB, [watchAgain(unwatched.map(({ id }) => id))]);
  return (await startInTurn(env, queued)).failed;
}

interface Known {
  readonly captured: ReadonlySet<object>;
  readonly putOff: { has(id: string): boolean };
}

function whatBecameOf({ envelope, instances }: Plan, { taken }: Written, { captured, putOff }: Known): Outcome {
  const [command] = envelope.kind === "command" ? instances : [];
  if (command === undefined) return { did: captured.has(envelope) ? "captured" : "routed" };
  if (captured.has(command)) return { did: "captured" };
  // The command's workflow or queue is paused, or the command waits for a slot or its due time.
  if (taken.get(command)?.status === "accepted" || (command.flow && taken.get(command)?.held === 1)) return { did: "put off" };
  if (taken.get(command)?.deliveries !== 1) return { did: "duplicate" };
  return { did: putOff.has(command.id) ? "put off" : "started" };
}
