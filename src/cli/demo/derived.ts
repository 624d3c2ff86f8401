import type { Story } from "./story.ts";

export const derived: Story = { title: "outcomes become charges and payouts; budgets; merged contacts", tell: async () => undefined };
