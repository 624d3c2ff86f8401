import { enqueue, logLine, MillraceError, texts } from "millrace";
import { bodies } from "millrace/http";
import * as z from "zod";
import { assertHasCrm, crmAccount } from "../providers/crm-account.ts";
import { crmWebhookSecret, hubspotScheme } from "../providers/hubspot-signature.ts";
import { commandsFrom, deliverySchema, deliveryShape, eventsIn, forgottenBy } from "../systems/crm/notices.ts";
import { askToForget, FIRST } from "../systems/privacy/ask-to-forget.ts";
import { operation } from "./operation.ts";

/**
 * Maximum size of a webhook request: HubSpot sends at most 100 events in a request. Each event is a few hundred bytes, and a property's
 * value may be long.
 */
const MAX_BYTES = 1024 * 1024;

/** The security scheme of HubSpot's signature in the OpenAPI document, which the request has in place of a token. */
const hubspotSignature = {
  type: "apiKey",
  in: "header",
  name: "X-HubSpot-Signature-v3",
  description: "HubSpot's signature of method, URL, body and `X-HubSpot-Request-Timestamp`, with the shared secret.",
};

const TakenSchema = z
  .object({
    accepted: z.int().meta({ description: "The number of committed commands that will read a contact." }),
    known: z.int().meta({ description: "The number of commands that earlier requests had sent." }),
    foreign: z.int().meta({ description: "The number of ignored events of other accounts than the deployment's." }),
    unread: z.int().meta({
      description: "The number of ignored events that do not match HubSpot's format. The log contains the errors of these events.",
    }),
  })
  .meta({ id: "CrmNoticesTaken" });

export const crmHooks = [
  operation("post", "/crm/hubspot/webhooks/{tenant}", "takeHubspotNotices", undefined, {
    summary: "Receive webhooks of HubSpot",
    description:
      "Set this URL in HubSpot, with the tenant of the account's contacts. HubSpot signs the request (version 3) instead of sending a token. The response follows the commit of the commands, so HubSpot repeats failed deliveries.",
    security: [{ hubspotSignature: [] }],
    schemes: { hubspotSignature },
    params: {
      tenant: z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, "must be the name of a tenant: lower case letters, digits, - or _"),
    },
    content: { "application/json": { schema: deliveryShape } },
    answer: ["Taken", TakenSchema],
    problems: ["signature_invalid", "config_invalid"],
    async run({ env, catalog, param: { tenant: tenantId }, context }) {
      const keys = () => [new TextEncoder().encode(crmWebhookSecret(env))];
      const text = await bodies.signedText(context, { name: "hubspot", scheme: hubspotScheme, keys, maxBytes: MAX_BYTES });
      assertHasCrm(env, tenantId);
      const { events: told, unread } = eventsIn(bodies.parse(deliverySchema, texts.parseBounded(text, MAX_BYTES)));
      if (unread.length > 0 && told.length === 0) throw bodies.invalid(unread.flat().slice(0, 50));
      if (unread.length > 0) logLine("error", { log: "notices_not_read", tenant_id: tenantId, issues: unread.flat().slice(0, 50) });
      // A HubSpot app may be installed in several accounts, and HubSpot sends the events of all these accounts to this route. Only one of
      // the accounts belongs to this tenant.
      const account = crmAccount(env);
      const events = told.filter(({ portalId }) => portalId === account);
      const commands = await commandsFrom(env, tenantId, events);
      const by = { tenantId, source: "crm/hubspot", actor: "crm/hubspot" };
      const changed = commands.length === 0 ? [] : await enqueue(env, catalog, by, commands);
      const wishes = (await forgottenBy(env, tenantId, events)).map(({ contactId, event }) => ({
        contactId,
        request: FIRST,
        reason: `The CRM reported that its record was deleted for privacy (${event}).`,
      }));
      const accepted = wishes.length === 0 ? changed : [...changed, ...(await askToForget(env, catalog, by, wishes))];
      const refused = accepted.find((one) => one instanceof MillraceError);
      if (refused) throw refused;
      const known = accepted.filter((one) => !(one instanceof MillraceError) && one.replayed).length;
      return { accepted: accepted.length - known, known, foreign: told.length - events.length, unread: unread.length };
    },
  }),
];
