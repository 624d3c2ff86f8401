import { WorkerEntrypoint } from "cloudflare:workers";
import { crmStoreOf, type EmbeddedEnv } from "./env.ts";

export { EmbeddedCrmStore } from "./crm/store.ts";

/**
 * A CRM with HubSpot's API: tokens, unique ids and addresses, 100 records per batch, partial success, rate limits, merges and signed
 * messages about every change. Bind this class as the service `EMBEDDED_CRM`. The embedded CRM is not reachable from the internet.
 */
export class EmbeddedCrm extends WorkerEntrypoint<EmbeddedEnv> {
  override async fetch(request: Request): Promise<Response> {
    const { status, body, headers } = await crmStoreOf(this.env).call({
      method: request.method,
      path: new URL(request.url).pathname,
      authorization: request.headers.get("authorization"),
      body: await request.text(),
    });
    return status === 204 ? new Response(null, { status, headers }) : Response.json(body, { status, headers });
  }
}
