import type { LedgerEntry } from "../upstream/server.ts";
import { subjectOf } from "./commands.ts";
import { postJson } from "./http.ts";
import type { Account, Answer } from "./worker.ts";

/** Answers every doubt as a careful person does: looks at the upstream, confirms what happened and rejects what did not. Answers how many there were. */
export async function answerDoubts(url: string, ledger: readonly LedgerEntry[], account: Account): Promise<number> {
  const names = new Map(account.instances.map(({ id, name }) => [id, name]));
  const doubts = account.inbox.filter(({ state }) => state === "in_doubt");
  for (const { instance_id, step, item, generation } of doubts) {
    const subject = subjectOf(names.get(instance_id) ?? "", { name: step });
    const seen = ledger.find((entry) => entry.subject === subject);
    const answer: Answer = {
      entry: { instanceId: instance_id, step, item, generation },
      resolution: seen ? { verb: "confirm", output: seen.id } : { verb: "reject" },
    };
    await postJson(`${url}/resolve`, answer);
  }
  return doubts.length;
}
