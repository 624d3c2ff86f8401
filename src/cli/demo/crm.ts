import { Refusal } from "../command.ts";
import type { Story } from "./story.ts";

export const crm: Story = { title: "contacts to a CRM and back, within its limits", tell };

async function tell(): Promise<void> {
  throw new Refusal("Under construction.");
}
