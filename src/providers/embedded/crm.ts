import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";

/** What the embedded CRM keeps: under construction. */
export class EmbeddedCrmStore extends DurableObject {}

/** A CRM that speaks HubSpot's format: under construction. */
export class EmbeddedCrm extends WorkerEntrypoint {
  override async fetch(): Promise<Response> {
    return new Response(null, { status: 501 });
  }
}
