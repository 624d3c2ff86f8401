import { expect, it } from "vitest";
import crm from "../../../docs/crm.md?raw";
import { callerWith } from "../../api/client.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/crm.md answers what is written under it", { timeout: 60_000 }, async () => {
  const { token } = await callerWith(["enqueue", "read", "operate", "embedded"], "acme");
  const copied = (body: { items?: { contact_id?: string; crm_id?: string }[] }) => {
    const [first] = body.items ?? [];
    return first?.contact_id === "crm-alan" ? { ALAN: first.crm_id } : {};
  };
  expect(await followDocument(crm, { given: { TOKEN: token }, copied })).toBeGreaterThan(10);
});
