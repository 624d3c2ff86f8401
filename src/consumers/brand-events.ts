import { defineConsumer, ids, on, send, sendEach, signal, start, tell } from "millrace";
import { BrandAudited, BrandCycle, BrandCycleEnded, KeywordTrending } from "../messages/brand.ts";
import { BudgetSet } from "../messages/budgets.ts";
import { ContentGenerated, ContentPublish, ContentPublished, ContentRejected, ContentUnpublished } from "../messages/content.ts";
import { ContactSynced } from "../messages/crm.ts";
import { brandEvents } from "../messages/queues.ts";
import { ResearchCompleted } from "../messages/research.ts";
import { SocialCreate, SocialPosted } from "../messages/social.ts";
import { WebhookSwitched } from "../messages/webhooks.ts";
import { announcers } from "../systems/content/announcers.ts";
import { generateArticle } from "../workflows/generate-article.ts";

/** The routes of all events except the events about facts. */
export const reacting = defineConsumer({
  queue: brandEvents,
  batch: { size: 100, waitSeconds: 0 },
  routes: [
    on(
      KeywordTrending,
      send(BrandCycle, ({ brand, keyword, seen_on }) => ({
        brand,
        cycle: trend(keyword, seen_on),
        keywords: [keyword],
        priority: "normal" as const,
      })),
    ),
    on(ResearchCompleted, start(generateArticle), agent()),
    on(
      ContentGenerated,
      send(ContentPublish, ({ content_id, brand }) => ({ content_id, brand })),
      agent(),
    ),
    on(ContentPublished, sendEach(SocialCreate, announcers), agent()),
    on(ContentUnpublished, agent()),
    on(ContentRejected, agent()),
    on(SocialPosted),
    on(BrandAudited),
    on(BrandCycleEnded, signal()),
    on(ContactSynced),
    on(WebhookSwitched, signal()),
    on(BudgetSet, signal()),
  ],
});

/**
 * The name of the cycle for a trending keyword on a day. The name depends only on the keyword and the day, so a second event of that day
 * starts no second cycle.
 */
function trend(keyword: string, seenOn: string): string {
  return `trend ${seenOn} ${ids.digest(keyword).slice(0, 12)}`;
}

/** Notifies the agent of the event's brand. */
function agent<Event extends { brand: string }>() {
  return tell<Event>("brand-agent", ({ brand }, { tenant_id }) => `${tenant_id}/${brand}`);
}
