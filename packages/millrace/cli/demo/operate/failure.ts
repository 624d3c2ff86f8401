import type { Instance } from "../../api-client.ts";
import { Refusal } from "../../command.ts";
import { paint, say } from "../../terminal.ts";
import type { Until } from "../until.ts";
import type { OperateApi } from "./api.ts";
import { FAILED, LARGE, SHORT, STRAY } from "./orders.ts";
import type { Outside } from "./outside.ts";

/** Has orders come in, one that needs a yes and one without its pieces among them, and waits until the courier has refused the others. */
export async function failing(api: OperateApi, outside: Outside, until: Until): Promise<void> {
  const { pieces: _, ...short } = SHORT;
  const strays = STRAY.keys.map((parcel) => api.outsider(parcel, { parcel }, STRAY.type));
  await Promise.all([api.ship([...FAILED, LARGE]), api.outsider(SHORT.order, short), ...strays]);
  await until(async () => {
    const count = Map.groupBy(await api.all(), ({ status }) => status);
    return count.get("errored")?.length === FAILED.length && count.get("waiting")?.length === 1;
  }, `${FAILED.length} instances fail, and one waits`);
  const letters = async () => (await api.letterCauses()).reduce((sum, { count }) => sum + count, 0);
  await until(async () => (await letters()) === 1 + STRAY.keys.length, "what nobody can begin is a dead letter");
  const reserved = outside.book.filter(({ kind, order }) => kind === "reservations" && order !== LARGE.order).length;
  say(
    `  ${FAILED.length} instances are errored. Outside, ${reserved} reservations were made, and ${outside.refused.length} bookings refused.`,
  );
}

/** Finds the cause that all of them have, looks at one, and at what a retry of it would do. Answers the cause and that one. */
export async function findCause(api: OperateApi): Promise<{ cause: string; sample: Instance }> {
  const causes = await api.causes();
  const [cause] = causes;
  if (!cause || causes.length > 1) throw new Refusal(`${causes.length} causes were found instead of one.`);
  say(paint("dim", "  GET /v1/instances/causes"));
  say(`  ${paint("red", `${cause.count} ×`)} ${cause.workflow}, “${cause.step}”, ${cause.code}: ${cause.message}`);
  const members = await api.ofCause(cause.id);
  if (cause.count !== FAILED.length || members.length !== FAILED.length) {
    throw new Refusal(`The cause counts ${cause.count} and lists ${members.length} instances, of ${FAILED.length} that failed.`);
  }
  const sample = members.find(({ id }) => id === cause.instance_id);
  if (!sample) throw new Refusal("The instance that stands for the cause is not among those of it.");
  say(paint("dim", `\n  GET /v1/instances?cause=… lists ${members.length}. The newest, whole:`));
  const { error } = sample;
  say(
    `  ${paint("cyan", sample.subject)} at “${error?.step}”, attempt ${error?.attempts}, upstream ${error?.upstream_status}: ${error?.message}`,
  );

  const { from, refused, effects } = await api.planRetry(sample.id, "What would a retry do?");
  const verdicts = effects.map(({ step, verdict }) => `“${step}” ${paint(verdict === "kept" ? "green" : "yellow", verdict)}`);
  say(paint("dim", "\n  POST /v1/instances/{id}/retry, dry_run"));
  say(`  from “${from}”: ${verdicts.join(", ")}. The stock that was reserved stays reserved.`);
  const planned = effects.map(({ step, verdict }) => `${step} ${verdict}`).join();
  if (refused !== null || planned !== "reserve stock kept,book courier runs") throw new Refusal(`A retry would do this: ${planned}.`);
  return { cause: cause.id, sample };
}

/** Retries one order, and waits for its end. */
export async function retryOne(api: OperateApi, { id, subject }: Instance): Promise<string> {
  await api.retry(id, "The courier's key is renewed: one first.");
  const { status, error } = await api.settled(id);
  if (status !== "complete") throw new Refusal(`${subject} was retried and is ${status}: ${error?.message}`);
  say(`  ${paint("cyan", subject)} is ${paint("green", status)}.`);
  return subject;
}
