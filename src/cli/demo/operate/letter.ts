import { Refusal } from "../../command.ts";
import { paint, say } from "../../terminal.ts";
import type { OperateApi } from "./api.ts";
import { SHORT } from "./orders.ts";

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
