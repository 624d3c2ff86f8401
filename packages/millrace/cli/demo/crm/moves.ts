import { Refusal } from "../../command.ts";
import { paint, say } from "../../terminal.ts";
import type { Stage } from "../story.ts";
import type { CrmApi } from "./api.ts";
import { until } from "./watch.ts";

const ACCOUNT = "62515";

/** Another account of the CRM: nothing goes there before an operator says so, and then it begins anew. */
export async function moves(stage: Stage, api: () => CrmApi, contact: string): Promise<void> {
  await stage.crash({ CRM_ACCOUNT: ACCOUNT });
  const sync = await api().command("contact.sync", { contact_id: contact, occasion: "moved" });
  const stopped = await ended(stage, api, sync, "errored");
  say(`  ${paint("red", "stopped")}  ${stopped.error?.message.split(". ")[0]}.`);
  const calls = (await api().calls()).total;

  const adopted = await api().command("crm.adopt_account", { account: `embedded/${ACCOUNT}`, occasion: "moved" });
  await ended(stage, api, adopted, "complete");
  await api().retry(sync, "The account is adopted.");
  await ended(stage, api, sync, "complete");
  const records = await api().records();
  if (calls !== 0 || records.length !== 1)
    throw new Refusal(`There were ${calls} calls before it was adopted, and ${records.length} records after.`);
  say(`  crm.adopt_account forgets all links: retried, ${contact} is record ${records[0]?.id} there. Nothing had gone there before.`);
}

async function ended(stage: Stage, api: () => CrmApi, id: string, status: "complete" | "errored") {
  const over = await until(
    stage,
    async () => {
      const instance = await api().instance(id);
      // Behind a retry it is `errored` for a moment longer.
      return instance.status === status ? instance : undefined;
    },
    `an instance is ${status}`,
  );
  return over;
}
