import type { Story } from "./story.ts";

export const webhooks: Story = { title: "signed deliveries through failure, retry and rotation", tell: async () => undefined };
