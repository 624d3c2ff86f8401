import type { Instance } from "../packages/millrace/cli/api-client.ts";
import type { BrandApi, EmittedMessage, LedgerTotals } from "./api.ts";
import { KEYWORDS, MESSAGES, ONCE_EACH } from "./job.ts";
import { aboutOf } from "./timeline.ts";

interface PublishedPage {
  keyword: string;
  url: string;
  status: number;
  title: string;
  /** True if the published page shows the title of the article. */
  hasTitle: boolean;
}

/** The result of the job. */
export interface Outcome {
  pages: PublishedPage[];
  totals: LedgerTotals;
  /** The number of different messages, by message type. */
  messages: Record<string, number>;
}

export async function readOutcome(api: BrandApi, instances: readonly Instance[]): Promise<Outcome> {
  const emitted: EmittedMessage[] = [];
  for (const { id } of instances) emitted.push(...(await api.events(id)));
  const published = emitted.filter(({ message_type }) => message_type === "content.published");
  const pages: PublishedPage[] = [];
  for (const { subject, payload_inline } of published) {
    const writer = instances.find(({ id }) => id === subject);
    if (writer) pages.push(await readPage(api, writer, aboutOf(writer, instances), (payload_inline as { url: string }).url));
  }
  return { pages, totals: await api.ledgerTotals(), messages: countMessages([...instances, ...emitted]) };
}

/** Describes each difference from the engine's promises in one sentence. The list is empty if there is no difference. */
export function differences({ pages, totals, messages }: Outcome): string[] {
  const count = KEYWORDS.length;
  return [
    ...(pages.length === count ? [] : [`${pages.length} pages were published instead of ${count}.`]),
    ...pages.filter(({ status }) => status !== 200).map(({ url, status }) => `${url} returned ${status} instead of 200.`),
    ...pages
      .filter(({ status, hasTitle }) => status === 200 && !hasTitle)
      .map(({ url, title }) => `${url} does not show its title, “${title}”.`),
    ...paidOtherwise(totals, count),
    ...Object.entries(MESSAGES)
      .filter(([type, expected]) => messages[type] !== expected)
      .map(([type, expected]) => `The message ${type} was sent ${messages[type] ?? 0} times instead of ${expected}.`),
  ];
}

/** Describes in one sentence each wrong number of upstream calls for `count` keywords. */
export function paidOtherwise(totals: LedgerTotals, count: number): string[] {
  return ONCE_EACH.flatMap(({ upstream, outcome, each, words }) => {
    const times = totals[upstream]?.[outcome] ?? 0;
    return times === count * each ? [] : [`There were ${times} ${words} instead of ${count * each}.`];
  });
}

/** The same message can be in the list twice: as an emitted message and as an instance. Type and key together identify a message. */
function countMessages(seen: readonly { message_type: string; idempotency_key: string }[]): Record<string, number> {
  const different = new Map(seen.map(({ message_type, idempotency_key }) => [`${message_type} ${idempotency_key}`, message_type]));
  const counts: Record<string, number> = {};
  for (const type of different.values()) counts[type] = (counts[type] ?? 0) + 1;
  return counts;
}

async function readPage(api: BrandApi, writer: Instance, keyword: string, url: string): Promise<PublishedPage> {
  const { title } = await api.article(writer.id);
  const answer = await fetch(url);
  const shown = /<h1>(.*?)<\/h1>/s.exec(await answer.text())?.[1];
  return { keyword, url, status: answer.status, title, hasTitle: title !== "" && shown === title };
}
