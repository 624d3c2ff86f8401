import { Refusal } from "../../command.ts";
import { paint, say } from "../../terminal.ts";
import type { Until } from "../until.ts";
import type { OperateApi } from "./api.ts";
import { SHORT, STRAY } from "./orders.ts";

/** Tells the dead letters apart by their causes, and gives up those of one by a bulk action: the order's is not among them. */
export async function giveUpStrays(api: OperateApi, until: Until): Promise<void> {
  const causes = await api.letterCauses();
  say(paint("dim", "  GET /v1/dead-letters/causes"));
  for (const { count, message_type, reason, message } of causes)
    say(`  ${paint("red", `${count} ×`)} ${message_type}, ${reason}: ${message}`);
  const strays = causes.find(({ message_type }) => message_type === STRAY.type);
  if (causes.length !== 2 || strays?.count !== STRAY.keys.length) throw new Refusal(`The dead letters have ${causes.length} causes.`);
  const { id } = await api.skipAll(strays.id, "Returns are not ours: the old shop is told so.");
  let bulk = await api.bulk(id);
  await until(async () => {
    bulk = await api.bulk(id);
    return bulk.state !== "running";
  }, "the letters are given up");
  const left = await api.letterCauses();
  if (bulk.state !== "complete" || bulk.done !== STRAY.keys.length || left.length !== 1) throw new Refusal(`${bulk.done} were given up.`);
  say(paint("dim", "\n  POST /v1/bulk-actions, skip, of that cause alone"));
  say(`  ${bulk.state}: ${bulk.done} given up. The other cause is an order's: that one is wanted.`);
}

/** Finds the order that never began by its number, sees what is wrong with its message, and replays it corrected. */
export async function mendLetter(api: OperateApi): Promise<void> {
  const found = await api.search(SHORT.order);
  const [item] = found;
  if (item?.kind !== "dead_letter" || found.length > 1)
    throw new Refusal(`${SHORT.order} is found as ${found.map(({ kind }) => kind).join()}.`);
  say(paint("dim", `  GET /v1/search?q=${SHORT.order}`));
  say(`  a ${paint("red", "dead letter")}, found by its ${item.by}: ${item.title}`);
  const { body } = await api.letter(item.id);

  const reason = "The old shop forgets how many are meant: three, says the customer.";
  say(paint("dim", "\n  POST /v1/dead-letters/{id}/replay, dry_run: as it came, then with its pieces"));
  const asItCame = await api.planReplay(item.id, reason);
  const { issues = [] } = (asItCame.refused ?? {}) as { issues?: { path: string; message: string }[] };
  say(`  ${paint("red", asItCame.outcome)}: ${issues.map(({ path, message }) => `${path} ${message}`).join("; ")}`);
  const mended = { ...(body as object), payload_inline: SHORT };
  const corrected = await api.planReplay(item.id, reason, mended);
  say(`  ${paint("green", corrected.outcome)}: ${corrected.why}`);
  if (asItCame.outcome !== "refused" || corrected.outcome !== "starts") throw new Refusal("The dry runs do not say refused, then starts.");
  await api.replay(item.id, mended, reason);
  const { status } = await api.settled((await api.ofOrder(SHORT.order)).id);
  if (status !== "complete") throw new Refusal(`${SHORT.order} was replayed, and is ${status}.`);
  say(`  Replayed: ${paint("cyan", SHORT.order)} is ${paint("green", status)}.`);
}
