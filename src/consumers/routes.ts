import { mergeRecords } from "../crm/merged.ts";
import { appendObserved } from "../derive/append-observed.ts";
import { merge } from "../derive/merge.ts";
import { qualify } from "../derive/qualify.ts";
import { spend } from "../derive/spend.ts";
import { call, digest, on, project, type Route, send, sendEach, start, type Target, tell } from "../engine/index.ts";
import { factRow, ledgerRow } from "../facts/projection.ts";
import { BrandAudited, BrandCycle, KeywordTrending } from "../messages/brand.ts";
import { ContentGenerated, ContentPublish, ContentPublished, ContentRejected, ContentUnpublished } from "../messages/content.ts";
import { ContactSync, ContactSynced } from "../messages/crm.ts";
import {
  ChargeFact,
  ContactMergedFact,
  FactObserved,
  FactRecorded,
  OutcomeFact,
  PayoutFact,
  ReconciliationFact,
} from "../messages/facts.ts";
import { ResearchCompleted } from "../messages/research.ts";
import { SocialCreate, SocialPosted } from "../messages/social.ts";
import { WebhookDeliver } from "../messages/webhooks.ts";
import { deliveryRow } from "../webhooks/deliveries.ts";
import { offer } from "../webhooks/offer.ts";
import { generateArticle } from "../workflows/generate-article.ts";

/** What follows from what. */
export const routes: readonly Route[] = [
  on(
    KeywordTrending,
    send(BrandCycle, ({ brand, keyword, seen_on }) => ({ brand, cycle: trend(keyword, seen_on), keywords: [keyword] })),
  ),
  on(ResearchCompleted, start(generateArticle), agent()),
  on(
    ContentGenerated,
    send(ContentPublish, ({ content_id, brand }) => ({ content_id, brand })),
    agent(),
  ),
  on(
    ContentPublished,
    send(SocialCreate, ({ content_id, brand }) => ({ content_id, brand })),
    agent(),
  ),
  on(ContentUnpublished, agent()),
  on(ContentRejected, agent()),
  on(SocialPosted),
  on(BrandAudited),
  on(ContactSynced),

  on(FactRecorded, project(factRow), project(ledgerRow)),
  on(OutcomeFact, call(qualify), sendEach(WebhookDeliver, offer, deliveryRow)),
  on(ChargeFact, call(spend), sendEach(WebhookDeliver, offer, deliveryRow)),
  on(PayoutFact, sendEach(WebhookDeliver, offer, deliveryRow)),
  on(ContactMergedFact, call(merge), sendEach(ContactSync, mergeRecords), sendEach(WebhookDeliver, offer, deliveryRow)),
  on(ReconciliationFact, sendEach(WebhookDeliver, offer, deliveryRow)),
  on(FactObserved, call(appendObserved)),
];

/** The cycle of a keyword that was seen on a day: whoever has seen it too asks for nothing more. */
function trend(keyword: string, seenOn: string): string {
  return `trend ${seenOn} ${digest(keyword).slice(0, 12)}`;
}

/** The agent of the brand that an event is about hears of it. */
function agent<Event extends { brand: string }>(): Target<Event> {
  return tell("brand-agent", ({ brand }, { tenant_id }) => `${tenant_id}/${brand}`);
}
