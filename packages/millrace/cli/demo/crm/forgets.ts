import { Refusal } from "../../command.ts";
import { say } from "../../terminal.ts";
import type { Stage } from "../story.ts";
import type { CrmApi } from "./api.ts";
import { until } from "./watch.ts";

const HEAD = "contact_id,email,name,referred_by";

/** A person who is forgotten, and a friend of whom it is said who referred them. */
interface Forgotten {
  person: string;
  address: string;
  friend: string;
}

/** A contact is forgotten: first what would go is shown, then it goes; a second import does not bring them back. */
export async function forgets(stage: Stage, api: () => CrmApi, { person, address, friend }: Forgotten): Promise<void> {
  const friends = `${friend},friend@example.com,A Friend,`;
  await imported(stage, api, "friends", [`${friends}${address}`]);

  const preview = await api().forget(person, true);
  say(`  What would go of ${person}: ${counted(preview.found)}.`);
  const { instance_id: id } = await api().forget(person, false);
  await until(stage, async () => ((await api().instance(id)).status === "complete" ? true : undefined), "the person is forgotten");
  const referred = (await api().contact(friend))?.properties.referred_by;
  say(`  Forgotten, here and in the CRM. ${friend} was referred by ${address}; now by “${referred}”.`);

  const again = await imported(stage, api, "again", [`${person},${address},Person,`, friends]);
  const records = (await api().records()).filter(({ key, archived }) => key === `acme/${person}` && !archived);
  if (again.done !== 1 || again.failed !== 1 || records.length > 0 || (await api().contact(person)) || referred !== "[forgotten]")
    throw new Refusal(`${person} is not forgotten: ${records.length} records, ${again.done} rows of two taken.`);
  say(
    `  The file comes again with a row of ${person}: ${again.done} row is taken, ${again.failed} refused, because who was forgotten stays so.`,
  );
}

async function imported(stage: Stage, api: () => CrmApi, name: string, rows: readonly string[]): Promise<{ done: number; failed: number }> {
  await api().importCsv(name, "contacts", `${[HEAD, ...rows].join("\n")}\n`);
  return until(
    stage,
    async () => {
      const batch = await api().batch(name);
      return batch.state === "complete" ? batch.rows : undefined;
    },
    `the file “${name}” is imported`,
  );
}

function counted(found: Record<string, number>): string {
  return Object.entries(found)
    .map(([place, count]) => `${count} in ${place.replaceAll("_", " ")}`)
    .join(", ");
}
