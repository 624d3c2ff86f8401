import { Refusal } from "../command.ts";
import type { Story } from "./story.ts";

export const publish: Story = { title: "approve, publish, take down: pages, an index, a feed", tell };

async function tell(): Promise<void> {
  throw new Refusal("Under construction.");
}
