import { expect, it } from "vitest";
import crm from "../../../docs/crm.md?raw";
import { callerWith } from "../../api/client.ts";
import { crmTells } from "../../providers/embedded.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/crm.md prints the output under it", { timeout: 90_000 }, async () => {
  const { token, tenantId } = await callerWith(["enqueue", "read", "operate", "embedded"]);
  // The document's tenant is `acme`, which the embedded CRM notifies by default.
  const own = crm.replaceAll("webhooks/acme", `webhooks/${tenantId}`);
  expect(own).not.toBe(crm);
  await crmTells(`http://localhost:8787/crm/hubspot/webhooks/${tenantId}`);
  const copied = (body: { items?: { contact_id?: string; crm_id?: string }[] }) => {
    const [first] = body.items ?? [];
    return first?.contact_id === "crm-alan" ? { ALAN: first.crm_id } : {};
  };
  expect(await followDocument(own, { given: { TOKEN: token }, copied })).toBeGreaterThan(10);
});
