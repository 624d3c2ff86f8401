import type { Story } from "./story.ts";

export const ledger: Story = { title: "facts, their projection, a rebuild", tell: async () => undefined };
