import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { wrongIn } from "./official.ts";

/** A span as received, by the JSON mapping of OpenTelemetry's protocol. */
export interface CollectedSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: { stringValue?: string; intValue?: string; doubleValue?: number; boolValue?: boolean } }[];
  status: { code?: number; message?: string };
}

/** A received request for spans: whether it followed the protocol, and the response. */
export interface CollectedRequest {
  wrong: string[];
  headers: IncomingMessage["headers"];
  answered: number;
  spans: CollectedSpan[];
}

/**
 * A collector that accepts spans by OTLP/HTTP JSON and records them: POST /v1/traces is the endpoint, GET /requests the record; POST
 * /refuses refuses spans. It validates every request by OpenTelemetry's own message classes.
 */
export async function startCollector(): Promise<{ url: string; stop: () => void }> {
  const requests: CollectedRequest[] = [];
  const server = createServer(async (request, response) => {
    const answer = (status: number, body: unknown) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    };
    if (request.url === "/requests") return answer(200, requests);
    const body = JSON.parse(await text(request));
    const spans = body.resourceSpans.flatMap(({ scopeSpans }: { scopeSpans: { spans: CollectedSpan[] }[] }) =>
      scopeSpans.flatMap((scope) => scope.spans),
    );
    const answered = request.url === "/refuses" ? 503 : 200;
    requests.push({ wrong: wrongIn(body), headers: request.headers, answered, spans });
    answer(answered, {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, stop: () => void server.close() };
}
