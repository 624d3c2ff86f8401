import { defineConsumer } from "millrace";
import { publishCommands } from "../messages/queues.ts";
import { publishArticle } from "../workflows/publish-article.ts";
import { publishToSite } from "../workflows/publish-to-site.ts";
import { unpublishArticle } from "../workflows/unpublish-article.ts";

export const publishing = defineConsumer({
  queue: publishCommands,
  priority: { low: "5 minutes" },
  starts: [publishArticle, publishToSite, unpublishArticle],
});
