import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { serve } from "../loopback.ts";
import { verifies } from "../verified.ts";
import type { Span } from "./tree.ts";

/** What an alert's signed webhook says, as far as the story reads it. */
interface Notice {
  change: string;
  rule: string;
  severity: string;
  labels: Record<string, string>;
  /** How often it had happened by then; null where the rule is about a level. */
  count: number | null;
}

/** One request as the pager saw it. */
export interface Page {
  /** Names the notice: the same at every attempt. */
  id: string;
  isSigned: boolean;
  status: number;
  notice: Notice;
}

/** Other people's servers, which write down what they hear: a pager, and a collector of traces. */
export interface Outside {
  /** Variables by which an engine is told of them. */
  vars: Record<string, string>;
  /** Every request to the pager, in the order of arrival. */
  pages: Page[];
  /** Every span, in the order of arrival. */
  spans: Span[];
  stop(): void;
}

/** The pager refuses each notice so often, and asks for a second's patience. */
export const REFUSALS = 2;

/** Starts them on a free port of this machine. */
export async function startOutside(): Promise<Outside> {
  const pages: Page[] = [];
  const spans: Span[] = [];
  const secret = `whsec_${randomBytes(32).toString("base64")}`;

  const pager = (body: string, headers: Record<string, string>, response: ServerResponse) => {
    const id = headers["webhook-id"] ?? "";
    const isSigned = verifies(secret, body, headers);
    const tries = pages.filter((page) => page.id === id).length;
    const status = isSigned ? (tries < REFUSALS ? 503 : 204) : 401;
    pages.push({ id, isSigned, status, notice: (JSON.parse(body) as { data: Notice }).data });
    response.writeHead(status, status === 503 ? { "retry-after": "1" } : undefined).end();
  };
  const collector = (body: string, response: ServerResponse) => {
    const { resourceSpans } = JSON.parse(body) as { resourceSpans: { scopeSpans: { spans: Span[] }[] }[] };
    spans.push(...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)));
    response.writeHead(200, { "content-type": "application/json" }).end("{}");
  };
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await text(request);
    if (request.url === "/pager") return pager(body, request.headers as Record<string, string>, response);
    if (request.url === "/v1/traces") return collector(body, response);
    response.writeHead(404).end();
  };
  const server = await serve(take);
  return {
    ...server,
    vars: {
      ALERTS_WEBHOOK_URL: `${server.url}/pager`,
      ALERTS_WEBHOOK_SECRET: secret,
      // As a tenant's endpoint, a pager stands on a public address; this one is on this machine.
      WEBHOOKS_ALLOW_LOCAL: "true",
      OTLP_ENDPOINT: `${server.url}/v1/traces`,
    },
    pages,
    spans,
  };
}
