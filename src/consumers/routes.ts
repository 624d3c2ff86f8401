import { call, digest, on, project, type Route, send, sendEach, signal, start, type Target, tell } from "millrace";
import { mergeRecords } from "../crm/merged.ts";
import { appendObserved } from "../derive/append-observed.ts";
import { merge } from "../derive/merge.ts";
import { qualify } from "../derive/qualify.ts";
import { spend } from "../derive/spend.ts";
import type { RecordedFact } from "../facts/fact.ts";
import { factRow, ledgerRow } from "../facts/projection.ts";
import { BrandAudited, BrandCycle, KeywordTrending } from "../messages/brand.ts";
import { BudgetSet } from "../messages/budgets.ts";
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
import { WebhookDeliver, WebhookSwitched } from "../messages/webhooks.ts";
import { deliveryRow } from "../webhooks/deliveries.ts";
import { stateMatches } from "../webhooks/matches.ts";
import { offer } from "../webhooks/offer.ts";
import { deliverWebhook } from "../workflows/deliver-webhook.ts";
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
  on(OutcomeFact, call(qualify), ...webhooks()),
  on(ChargeFact, call(spend), ...webhooks()),
  on(PayoutFact, ...webhooks()),
  on(ContactMergedFact, call(merge), sendEach(ContactSync, mergeRecords), ...webhooks()),
  on(ReconciliationFact, ...webhooks()),
  on(FactObserved, call(appendObserved)),
  on(WebhookSwitched, signal()),
  on(BudgetSet, signal()),
];

/** The cycle of a keyword that was seen on a day: whoever has seen it too asks for nothing more. */
function trend(keyword: string, seenOn: string): string {
  return `trend ${seenOn} ${digest(keyword).slice(0, 12)}`;
}

/** Whoever has asked for such facts is sent it; that it is, is stated at once. */
function webhooks<Fact extends RecordedFact>(): Target<Fact>[] {
  return [sendEach(WebhookDeliver, offer, deliveryRow), call(stateMatches(deliverWebhook.name))];
}

/** The agent of the brand that an event is about hears of it. */
function agent<Event extends { brand: string }>(): Target<Event> {
  return tell("brand-agent", ({ brand }, { tenant_id }) => `${tenant_id}/${brand}`);
}
