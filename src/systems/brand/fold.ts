import { type Envelope, ids, MillraceError } from "millrace";
import { ContentGenerated, ContentPublished, ContentRejected, ContentUnpublished } from "../../messages/content.ts";
import { ResearchCompleted } from "../../messages/research.ts";
import type { ArticleState, BrandState } from "./state.ts";

const ARTICLES = [
  [ContentGenerated, "draft"],
  [ContentRejected, "rejected"],
] as const satisfies readonly (readonly [unknown, ArticleState])[];

const PAGES = [
  [ContentPublished, true],
  [ContentUnpublished, false],
] as const;

/** Returns the brand of an event. */
export function brandOf({ payload_inline }: Envelope): string {
  const { brand } = (payload_inline ?? {}) as { brand?: unknown };
  if (typeof brand === "string") return brand;
  throw new MillraceError(
    "invariant",
    "An event that does not say its brand reached a brand's agent: see its line in src/consumers/brand-events.ts.",
  );
}

/**
 * Applies an event to the state of a brand's agent. The same events give the same state of the agent in any order, even if events are
 * repeated. `writer` is the workflow that writes an article from research. Events of other types are ignored.
 */
export function foldEvent(state: BrandState, envelope: Envelope, writer: string): void {
  const at = Date.parse(envelope.created_at);
  if (envelope.message_type === ResearchCompleted.type) {
    const { research_id, keyword } = ResearchCompleted.payload.parse(envelope.payload_inline);
    const [request = ""] = envelope.causation_id.split("/");
    // Reused research keeps its age, so only an event from the instance that did the research sets the time of the research.
    if (request === research_id) state.researched(research_id, keyword, at);
    state.begun(request, ids.instance(envelope.tenant_id, writer, envelope.idempotency_key), keyword, at);
  }
  for (const [event, become] of ARTICLES) {
    if (event.type !== envelope.message_type) continue;
    const { content_id, keyword, revision } = event.payload.parse(envelope.payload_inline);
    state.became({ content_id, keyword, revision, state: become }, at);
  }
  for (const [event, live] of PAGES) {
    if (event.type !== envelope.message_type) continue;
    const { content_id, keyword, revision, site } = event.payload.parse(envelope.payload_inline);
    state.paged({ content_id, keyword, site, revision, live }, at);
  }
}
