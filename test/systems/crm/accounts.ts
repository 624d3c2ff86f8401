import { env } from "cloudflare:workers";
import { onTestFinished } from "vitest";
import { type Caller, fresh } from "../../api/client.ts";
import { crmTellsNobody } from "../../providers/embedded.ts";
import { command } from "./crm.ts";

/** A test's settings of the deployment. */
export const vars = env as { CRM_ACCOUNT?: string };
let accounts = 62_500_000 + Math.floor(Math.random() * 1_000_000);

/** Gives the deployment another, empty CRM account until the test is over. Its records count from 1, as those of any account. */
export async function moves(account = String(++accounts)): Promise<string> {
  onTestFinished(() => {
    delete vars.CRM_ACCOUNT;
  });
  vars.CRM_ACCOUNT = account;
  await crmTellsNobody();
  return `embedded/${account}`;
}

/** Sends a tenant's contacts to an account. */
export const adopt = (caller: Caller, account: string) => command(caller, "crm.adopt_account", { account, occasion: fresh("o") });
