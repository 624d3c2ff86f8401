import { defineWorkflow } from "millrace";
import * as z from "zod";

/** Publishes one page. */
export const publishPage = defineWorkflow({
  name: "publish-page",
  input: z.object({ page: z.string().min(1) }),
  async run({ input: { page }, step }) {
    const url = await step.read("choose the address", () => `https://pages.example.com/${page}`);
    return { url };
  },
});

/** Publishes all pages of a site at the same time. */
export const publishSite = defineWorkflow({
  name: "publish-site",
  input: z.object({ site: z.string().min(1), pages: z.array(z.string().min(1)) }),
  key: ({ site }) => site,
  async run({ input: { pages }, step }) {
    const published = await Promise.all(pages.map((page) => step.child("page", publishPage, { page }, { key: page })));
    return published.map(({ url }) => url);
  },
});
