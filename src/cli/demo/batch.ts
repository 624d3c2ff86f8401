import type { Story } from "./story.ts";

export const batch: Story = { title: "a hundred thousand rows through three kills", tell: async () => undefined };
