import { Refusal } from "../../command.ts";
import { paint, say } from "../../terminal.ts";
import type { OperateApi } from "./api.ts";
import { LARGE } from "./orders.ts";
import type { Outside } from "./outside.ts";

/** Cancels the order that waits for a person, and looks whether the warehouse has its stock back. */
export async function cancelOne(api: OperateApi, outside: Outside): Promise<void> {
  const {
    id,
    status,
    waiting_for: [wait],
  } = await api.ofOrder(LARGE.order);
  if (status !== "waiting" || !wait) throw new Refusal(`${LARGE.order} is ${status}, and should wait.`);
  say(`  ${paint("cyan", LARGE.order)} is ${paint("yellow", status)} at “${wait.step}”; its stock is reserved.`);
  const reason = "The customer has called it off.";
  const { effects, follows } = await api.planCancel(id, reason);
  say(paint("dim", "  POST /v1/instances/{id}/cancel, dry_run"));
  say(`  ${effects.map(({ step, verdict }) => `“${step}” ${paint("yellow", verdict)}`).join(", ")}. ${follows}`);
  await api.cancel(id, reason);
  const after = await api.settled(id);
  const of = (kind: string) => outside.book.find((entry) => entry.kind === kind && entry.order === LARGE.order);
  const released = of("releases");
  if (after.status !== "terminated" || !released) throw new Refusal(`${LARGE.order} is ${after.status}, and its stock was not released.`);
  say(`  It is ${after.status}, its undo ${after.undo}. The warehouse has written down ${of("reservations")?.id}, then ${released.id}.`);
}
