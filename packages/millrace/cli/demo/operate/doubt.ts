import { Refusal } from "../../command.ts";
import { paint, say } from "../../terminal.ts";
import type { OperateApi } from "./api.ts";
import { LOST } from "./orders.ts";
import type { Outside } from "./outside.ts";

/** Has a mail go out whose answer gets lost, looks into the sender's book, and confirms what is written there. */
export async function resolveDoubt(api: OperateApi, outside: Outside): Promise<void> {
  outside.loseAnswer(LOST.order);
  await api.ship([LOST]);
  const { id } = await api.ofOrder(LOST.order);
  const { status } = await api.settled(id);
  const doubts = await api.doubts();
  const [doubt] = doubts;
  if (status !== "in_doubt" || doubts.length !== 1 || doubt?.instance_id !== id) {
    throw new Refusal(`${LOST.order} is ${status}, and there are ${doubts.length} doubts.`);
  }
  say(paint("dim", "  GET /v1/effects?state=in_doubt"));
  say(
    `  ${paint("cyan", LOST.order)} is ${paint("yellow", status)} at “${doubt.step}” (${doubt.class}). What was sent: ${JSON.stringify(doubt.input)}`,
  );
  say("  A machine that sent it again might send it twice. This one asks.");
  const sent = outside.book.find(({ kind, order }) => kind === "mails" && order === LOST.order);
  if (!sent) throw new Refusal("The mail is not in the book of who sends them.");
  await api.confirm(doubt.key, { id: sent.id }, `It went out: it is in their book as ${sent.id}.`);
  const after = await api.settled(id);
  if (after.status !== "complete") throw new Refusal(`The doubt was resolved, and ${LOST.order} is ${after.status}.`);
  say(`  The sender's book has it, as ${sent.id}. Confirmed: ${LOST.order} is ${paint("green", after.status)}.`);
}
